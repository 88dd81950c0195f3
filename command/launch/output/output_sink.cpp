// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/output/output_sink.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::launch {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;

FileDescriptor opened_again(int number) {
  struct stat status {};
  // A regular file never lets anybody wait, and would be written from its beginning.
  if (fstat(number, &status) != 0 || !(S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))) return {};
  return FileDescriptor(
      open(fmt::format("/proc/self/fd/{}", number).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

OutputSink::OutputSink(int number) : number_(number), own_(opened_again(number)) {}

void OutputSink::flush() {
  if (error_ == 0 && pending()) {
    // Without a descriptor of our own: what a writable pipe or socket takes without waiting.
    const std::size_t most = own_ ? kMostAtOnce : PIPE_BUF;
    const ssize_t count = write(descriptor(), lines_.data() + written_, std::min(waiting(), most));
    if (count >= 0)
      written_ += static_cast<std::size_t>(count);
    else if (errno != EAGAIN && errno != EINTR)
      error_ = errno;
  }
  if (error_ != 0) written_ = lines_.size();
  // Seldom, so that each byte is moved once or twice.
  if (written_ == lines_.size() || written_ > kMostWaiting) lines_.erase(0, std::exchange(written_, 0));
}

bool same_file(int lhs, int rhs) {
  struct stat left {};
  struct stat right {};
  return fstat(lhs, &left) == 0 && fstat(rhs, &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

}  // namespace tutti::launch
