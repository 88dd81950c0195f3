// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/stream.h>

#include <cstddef>
#include <deque>
#include <mutex>

namespace tutti {

/// Host memory that a device copies from and to at full speed without holding up the host. Blocks are lent until an
/// event is past, and used again. Thread-safe.
class PinnedMemory {
 public:
  static constexpr std::size_t kBlock = std::size_t{4} << 20U;  ///< bytes

  explicit PinnedMemory(Device device) : device_(device) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* take();                             ///< a block that nothing uses; waits for one when many are lent
  void give_back(std::byte* block, Event used);  ///< free once `used` is past; at once if it was never recorded

 private:
  static constexpr std::size_t kMostBlocks = 8;
  struct Lent {
    std::byte* block;
    Event used;
  };

  Device device_;
  std::mutex mutex_;       // guards what follows
  std::deque<Lent> lent_;  // oldest first
  std::size_t blocks_ = 0;
};

}  // namespace tutti
