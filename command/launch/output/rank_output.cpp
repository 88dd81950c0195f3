// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/output/rank_output.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace tutti::launch {

namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kMostBlocksLeft = 16;  // 1 MiB, the most that a user's pipe holds

}  // namespace

RankOutput::RankOutput(FileDescriptor pipe, std::string prefix, OutputSink& sink, RankLog* log)
    : pipe_(std::move(pipe)), prefixer_(std::move(prefix)), sink_(&sink), log_(log) {}

void RankOutput::read_some() {
  if (may_read()) read_block();
}

void RankOutput::drain() {
  for (std::size_t i = 0; i < kMostBlocksLeft && pipe_; ++i)
    if (!read_block()) return;
}

void RankOutput::close() {
  prefixer_.end(sink_->lines());
  pipe_.reset();
}

// False if nothing is there.
bool RankOutput::read_block() {
  std::array<char, kBlock> block;  // NOLINT(cppcoreguidelines-pro-type-member-init): read writes it
  const ssize_t count = read(pipe_.number(), block.data(), block.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count > 0) {
    const std::string_view bytes(block.data(), static_cast<std::size_t>(count));
    prefixer_.take(bytes, sink_->lines());
    if (log_ != nullptr) log_->take(bytes);
  } else {
    close();
  }
  return true;
}

}  // namespace tutti::launch
