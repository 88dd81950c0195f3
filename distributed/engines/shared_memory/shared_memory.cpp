// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/shared_memory.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kArrayAlignment = 64;

}  // namespace

/// What is free: each gap's begin and length, never two side by side.
struct SharedMemory::Gaps {
  std::byte* begin;
  std::size_t bytes;
  std::shared_ptr<const void> owner;
  std::mutex mutex;  // guards what follows: arrays are dropped by any thread
  std::map<std::size_t, std::size_t> gaps;

  void put_back(std::size_t place, std::size_t length) {
    const std::lock_guard lock(mutex);
    auto gap = gaps.emplace(place, length).first;
    if (const auto next = std::next(gap); next != gaps.end() && place + length == next->first) {
      gap->second += next->second;
      gaps.erase(next);
    }
    if (gap == gaps.begin()) return;
    if (const auto last = std::prev(gap); last->first + last->second == place) {
      last->second += gap->second;
      gaps.erase(gap);
    }
  }
};

SharedMemory::SharedMemory(std::byte* begin, std::size_t bytes, std::shared_ptr<const void> owner)
    : gaps_(std::make_shared<Gaps>(begin, bytes, std::move(owner))) {
  if (bytes > 0) gaps_->gaps.emplace(0, bytes);
}

SharedMemory::~SharedMemory() = default;

std::shared_ptr<std::byte> SharedMemory::allocate(std::size_t bytes) {
  const std::size_t length =
      (std::max<std::size_t>(1, bytes) + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
  std::size_t place = 0;
  {
    const std::lock_guard lock(gaps_->mutex);
    const auto gap = std::ranges::find_if(gaps_->gaps, [&](const auto& each) { return each.second >= length; });
    if (length < bytes || gap == gaps_->gaps.end()) {
      std::size_t left = 0;
      for (const auto& each : gaps_->gaps) left += each.second;
      raise<OutOfMemoryError>("[shared_memory] {} bytes do not fit: of {} shared bytes for arrays {} are left", bytes,
                              gaps_->bytes, left);
    }
    place = gap->first;
    const std::size_t rest = gap->second - length;
    gaps_->gaps.erase(gap);
    if (rest > 0) gaps_->gaps.emplace(place + length, rest);
  }
  return {gaps_->begin + place, [gaps = gaps_, place, length](std::byte*) { gaps->put_back(place, length); }};
}

}  // namespace tutti
