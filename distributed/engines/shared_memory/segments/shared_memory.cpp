// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/shared_memory.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace tutti {

namespace {

constexpr std::size_t kArrayAlignment = 64;

}  // namespace

/// What is free, in order, never two side by side; and blocks that have their memory still: what is dropped is often
/// wanted again.
struct SharedMemory::Gaps {
  struct Gap {
    std::size_t begin;
    std::size_t length;
  };

  Gaps(std::shared_ptr<const SharedSegment> its_segment, std::size_t first)
      : segment(std::move(its_segment)), begin(first) {
    kept.reserve(kMostKept);
    if (segment->bytes() > begin) gaps.push_back({begin, segment->bytes() - begin});
  }

  /// Takes a block of that length that has its memory; none: there is none.
  std::optional<std::size_t> take_kept(std::size_t length) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(kept, length, &Gap::length);
    if (found == kept.end()) return std::nullopt;
    const std::size_t place = found->begin;
    kept.erase(found);
    return place;
  }
  /// Takes the first gap of that length; none: there is none. Nobody wants what is kept any more: sizes have changed.
  std::optional<std::size_t> take(std::size_t length) {
    const std::lock_guard lock(mutex);
    gaps.reserve(gaps.size() + arrays + 1);  // so that nothing that comes back finds no room
    while (!kept.empty()) drop_kept();
    const auto gap = std::ranges::find_if(gaps, [&](const Gap& each) { return each.length >= length; });
    if (gap == gaps.end()) return std::nullopt;
    const std::size_t place = gap->begin;
    gap->begin += length;
    gap->length -= length;
    if (gap->length == 0) gaps.erase(gap);
    ++arrays;
    return place;
  }
  /// Frees a block for which there was no memory, or not enough.
  void drop(const Gap& block) noexcept {
    const std::lock_guard lock(mutex);
    give_back(block);
  }
  /// Keeps a block with its memory, in place of the oldest if there are many.
  void keep(const Gap& block) noexcept {
    const std::lock_guard lock(mutex);
    if (kept.size() == kMostKept) drop_kept();
    kept.push_back(block);
  }

  void drop_kept() noexcept {
    const Gap oldest = kept.front();
    kept.erase(kept.begin());
    give_back(oldest);
  }
  // The memory before the addresses are free: nobody else has them then.
  void give_back(const Gap& dropped) noexcept {
    segment->give_back(dropped.begin, dropped.length);
    --arrays;
    auto next = std::ranges::lower_bound(gaps, dropped.begin, {}, &Gap::begin);
    if (next != gaps.end() && dropped.begin + dropped.length == next->begin) {
      next->begin = dropped.begin;
      next->length += dropped.length;
    } else {
      next = gaps.insert(next, dropped);
    }
    if (next == gaps.begin()) return;
    const auto last = std::prev(next);
    if (last->begin + last->length != next->begin) return;
    last->length += next->length;
    gaps.erase(next);
  }

  static constexpr std::size_t kMostKept = 4;
  const std::shared_ptr<const SharedSegment> segment;
  const std::size_t begin;
  std::mutex mutex;  // guards what follows: arrays are dropped by any thread
  std::vector<Gap> gaps;
  std::vector<Gap> kept;
  std::size_t arrays = 0;  // number of blocks that are no gaps
};

SharedMemory::SharedMemory(std::shared_ptr<const SharedSegment> segment, std::size_t begin)
    : gaps_(std::make_shared<Gaps>(std::move(segment), begin)) {}

SharedMemory::~SharedMemory() = default;

std::size_t SharedMemory::bytes() const noexcept { return gaps_->segment->bytes() - gaps_->begin; }

std::size_t SharedMemory::left() const {
  const std::lock_guard lock(gaps_->mutex);
  std::size_t left = 0;
  for (const auto* each : {&gaps_->gaps, &gaps_->kept})
    for (const Gaps::Gap& gap : *each) left += gap.length;
  return left;
}

std::shared_ptr<std::byte> SharedMemory::allocate(std::size_t bytes, Held held) {
  const std::size_t length =
      (std::max<std::size_t>(1, bytes) + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
  const SharedSegment& segment = *gaps_->segment;
  segment.require_own();
  const auto kept = gaps_->take_kept(length);
  const auto place = kept || length < bytes ? kept : gaps_->take(length);
  if (!place) return nullptr;
  const Gaps::Gap block{*place, length};
  std::byte* const data = segment.data() + block.begin;
  if (kept)
    std::memset(data, 0, length);
  else
    try {
      segment.take(block.begin, length);
    } catch (...) {
      gaps_->drop(block);
      throw;
    }
  if (held == Held::long_term) segment.use_huge_pages(block.begin, length);
  return {data, [gaps = gaps_, block](std::byte*) { gaps->keep(block); }};
}

}  // namespace tutti
