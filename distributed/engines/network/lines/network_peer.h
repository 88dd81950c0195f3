// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/line_meeting.h>
#include <tutti/distributed/engines/network/lines/network_exchange.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Memory for what comes from one process for one sequence, until it is used: so many blocks, made when they are
/// needed. Thread-safe.
class BlockWindow {
 public:
  using Block = std::unique_ptr<std::byte[]>;

  void set_size(std::size_t blocks) { left_ = blocks; }
  Block take(std::size_t bytes);  ///< none: all are in use
  /// True if somebody was refused one since.
  bool give_back(Block);

 private:
  std::mutex mutex_;  // guards what follows: blocks come back on any thread
  std::vector<Block> free_;
  std::size_t left_ = 0;  // blocks that may still be made
  bool refused_ = false;
};

/// Another process, as the thread of the lines knows it.
struct NetworkPeer {
  using Clock = std::chrono::steady_clock;

  /// State of what comes on one line.
  struct Incoming {
    bool open = true;     ///< it has not ended
    bool paused = false;  ///< true while what comes next has no place yet
    bool told = false;    ///< `text` is an announcement of a request that this process may not have launched yet
    std::vector<std::byte> text{};
    std::shared_ptr<NetworkExchange> exchange{};  ///< the frames' request
    std::uint32_t number = 0;                     ///< number of the last request that was announced
    BlockWindow::Block block{};                   ///< being filled
    BlockWindow window{};
  };

  PeerLines lines;
  std::array<Incoming, kLanes> in{};
  std::optional<Clock::time_point> broken_at{};  ///< time when a line ended without a goodbye, or with an abort
  std::string how_broken{};
  std::atomic<bool> left{false};      ///< it has taken leave
  std::atomic<std::size_t> ended{0};  ///< number of its lines that have ended
};

}  // namespace tutti
