// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/chunked_heap.h>

#include <tutti/backend/cpu/runtime/huge_pages.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

namespace tutti {
namespace {

// Blocks often are as long as a power of two: without a gap, all would begin at the same places of a cache.
constexpr std::size_t kGap = 3 * 64;

}  // namespace

void* ChunkedHeap::allocate(std::size_t bytes) noexcept {
  if (bytes > kMost) return nullptr;
  const std::size_t whole = (bytes + 63) / 64 * 64 + kGap;
  const std::lock_guard lock(mutex_);
  try {
    for (auto& [start, chunk] : chunks_)
      if (void* const block = cut(chunk, start, whole)) return block;
    return cut_from_new_chunk(whole);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* ChunkedHeap::cut_from_new_chunk(std::size_t bytes) {
  std::unique_ptr<std::byte, void (*)(void*)> memory(static_cast<std::byte*>(memory_on_huge_pages(kChunk)), std::free);
  if (memory == nullptr) return nullptr;
  Chunk made;
  made.ranges.emplace(0, Range{kChunk, true});
  void* const block = cut(made, memory.get(), bytes);
  chunks_.emplace(memory.get(), std::move(made));
  memory.release();
  return block;
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
  const std::size_t end = range->first + range->second.bytes;
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
  // Pages that no block lies in any more: of the released one the first, which others have left, to the last.
  const std::size_t first = std::max(range->first, static_cast<std::size_t>(place - start) / kHugePage * kHugePage);
  const std::size_t last = std::min(range->first + range->second.bytes, (end + kHugePage - 1) / kHugePage * kHugePage);
  return_whole_huge_pages(start + first, last - first);
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
