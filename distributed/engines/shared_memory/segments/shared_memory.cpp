// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/shared_memory.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kArrayAlignment = 64;

}  // namespace

/// What is free: each gap's begin and length, never two side by side.
struct SharedMemory::Gaps {
  Gaps(std::shared_ptr<const SharedSegment> its_segment, std::size_t first)
      : segment(std::move(its_segment)), begin(first) {
    if (segment->bytes() > begin) gaps.emplace(begin, segment->bytes() - begin);
  }

  const std::shared_ptr<const SharedSegment> segment;
  const std::size_t begin;
  std::mutex mutex;  // guards what follows: arrays are dropped by any thread
  std::map<std::size_t, std::size_t> gaps;

  /// Takes the first gap of that length; none: there is none.
  std::optional<std::size_t> take(std::size_t length) {
    const std::lock_guard lock(mutex);
    const auto gap = std::ranges::find_if(gaps, [&](const auto& each) { return each.second >= length; });
    if (gap == gaps.end()) return std::nullopt;
    const auto [place, all] = *gap;
    gaps.erase(gap);
    if (all > length) gaps.emplace(place + length, all - length);
    return place;
  }
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

SharedMemory::SharedMemory(std::shared_ptr<const SharedSegment> segment, std::size_t begin)
    : gaps_(std::make_shared<Gaps>(std::move(segment), begin)) {}

SharedMemory::~SharedMemory() = default;

std::size_t SharedMemory::bytes() const noexcept { return gaps_->segment->bytes() - gaps_->begin; }

std::size_t SharedMemory::left() const {
  const std::lock_guard lock(gaps_->mutex);
  std::size_t left = 0;
  for (const auto& [place, length] : gaps_->gaps) left += length;
  return left;
}

// Given back before the addresses are free again: nobody else has them then.
std::shared_ptr<std::byte> SharedMemory::allocate(std::size_t bytes) {
  const std::size_t length =
      (std::max<std::size_t>(1, bytes) + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
  const auto place = length < bytes ? std::nullopt : gaps_->take(length);
  if (!place) return nullptr;
  std::shared_ptr<std::byte> memory(gaps_->segment->data() + *place,
                                    [gaps = gaps_, place = *place, length](std::byte*) {
                                      gaps->segment->give_back(place, length);
                                      gaps->put_back(place, length);
                                    });
  gaps_->segment->take(*place, length);
  return memory;
}

}  // namespace tutti
