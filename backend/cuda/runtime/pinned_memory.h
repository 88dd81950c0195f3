// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/stream.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace tutti {

/// Host memory that a device copies from and to at full speed without holding up the host. Blocks are lent until an
/// event is past, and used again. The streams of the events outlive it. Thread-safe.
class PinnedMemory {
 public:
  static constexpr std::size_t kBlock = std::size_t{4} << 20U;  ///< bytes

  explicit PinnedMemory(Device device) : device_(device) { lent_.reserve(kMostBlocks); }
  ~PinnedMemory();  ///< nothing may use a block any more
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* take();      ///< a block that nothing uses; waits for one when all are in use
  std::byte* try_take();  ///< nullptr where another thread would have to give one back: for who holds one already
  void give_back(std::byte* block, Event used) noexcept;  ///< free once `used` is past; at once if never recorded

 private:
  static constexpr std::size_t kMostBlocks = 8;
  struct Lent {
    std::byte* block;
    Event used;
  };

  std::byte* take(std::unique_lock<std::mutex>&);
  std::byte* allocate();
  std::byte* wait_for_oldest(std::unique_lock<std::mutex>&);

  Device device_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable given_back_;
  std::vector<Lent> lent_;  // those that are free, then oldest first; never grows beyond what is reserved
  std::size_t blocks_ = 0;
};

}  // namespace tutti
