// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/chunked_heap.h>

#include <tutti/backend/cpu/runtime/huge_pages.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

namespace tutti {
namespace {

// Blocks often are as long as a power of two: without a gap, all would begin at the same places of a cache.
constexpr std::size_t kGap = 3 * 64;

}  // namespace

void* ChunkedHeap::allocate(std::size_t bytes) noexcept {
  const std::size_t whole = (bytes + 63) / 64 * 64 + kGap;
  const std::lock_guard lock(mutex_);
  try {
    for (auto& [start, chunk] : chunks_)
      if (void* const block = cut(chunk, start, whole)) return block;
    auto* const start = static_cast<std::byte*>(memory_on_huge_pages(kChunk));
    if (start == nullptr) return nullptr;
    try {
      Chunk made;
      made.ranges.emplace(0, Range{kChunk, true});
      return cut(chunks_.emplace(start, std::move(made)).first->second, start, whole);
    } catch (const std::bad_alloc&) {
      std::free(start);
      throw;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* ChunkedHeap::cut(Chunk& chunk, std::byte* start, std::size_t bytes) {
  if (chunk.largest < bytes) return nullptr;
  std::size_t largest = 0;
  for (auto& [offset, range] : chunk.ranges) {
    if (!range.is_free) continue;
    largest = std::max(largest, range.bytes);
    if (range.bytes < bytes) continue;
    if (range.bytes > bytes) chunk.ranges.emplace(offset + bytes, Range{range.bytes - bytes, true});
    range = {bytes, false};
    return start + offset;
  }
  chunk.largest = largest;
  return nullptr;
}

bool ChunkedHeap::release(void* block) noexcept {
  auto* const place = static_cast<std::byte*>(block);
  const std::lock_guard lock(mutex_);
  auto found = chunks_.upper_bound(place);
  if (found == chunks_.begin()) return false;
  auto& [start, chunk] = *--found;
  if (place >= start + kChunk) return false;
  auto range = chunk.ranges.find(static_cast<std::size_t>(place - start));
  range->second.is_free = true;
  const auto next = std::next(range);
  if (next != chunk.ranges.end() && next->second.is_free) {
    range->second.bytes += next->second.bytes;
    chunk.ranges.erase(next);
  }
  if (range != chunk.ranges.begin())
    if (const auto before = std::prev(range); before->second.is_free) {
      before->second.bytes += range->second.bytes;
      chunk.ranges.erase(range);
      range = before;
    }
  chunk.largest = std::max(chunk.largest, range->second.bytes);
  if (range->second.bytes < kChunk) return true;
  std::byte* const empty = start;
  chunks_.erase(found);
  std::free(empty);
  return true;
}

std::size_t ChunkedHeap::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_.size();
}

}  // namespace tutti
