// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/output/rank_log.h>

#include <tutti/command/launch/launch_error.h>

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::launch {

namespace {

constexpr mode_t kMode = 0666;  // less the umask

// Neither waits at a named pipe nor becomes the owner of a terminal.
constexpr int kWays = O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

}  // namespace

RankLog::RankLog(std::string path) : path_(std::move(path)), file_(open(path_.c_str(), kWays, kMode)) {
  if (!file_) raise_errno("write " + path_);
}

void RankLog::take(std::string_view bytes) {
  while (file_ && !bytes.empty()) {
    const ssize_t count = write(file_.number(), bytes.data(), bytes.size());
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      fail(errno);
  }
}

void RankLog::close() {
  if (file_ && ::close(file_.release()) != 0) fail(errno);
}

std::optional<std::string> RankLog::news() { return std::exchange(news_, std::nullopt); }

void RankLog::fail(int error) {
  file_.reset();
  news_ = fmt::format("cannot write {} any further: {}; the job goes on without it", path_, std::strerror(error));
}

}  // namespace tutti::launch
