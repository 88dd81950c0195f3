// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/chunked_heap.h>

#include <doctest/doctest.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

using tutti::ChunkedHeap;

namespace {

struct Block {
  std::byte* data;
  std::size_t bytes;
  std::byte mark;
};

bool holds_its_mark(const Block& block) {
  return std::all_of(block.data, block.data + block.bytes, [&](std::byte each) { return each == block.mark; });
}

}  // namespace

TEST_CASE("ChunkedHeap: blocks of all sizes are apart, and an empty chunk goes back") {
  std::mt19937 random(7);
  ChunkedHeap heap;
  std::vector<Block> blocks;
  for (int turn = 0; turn < 600; ++turn) {
    const bool grows = turn < 300 ? random() % 3 != 0 : random() % 3 == 0;
    if (grows || blocks.empty()) {
      const std::size_t most = ChunkedHeap::kMost / (turn % 2 == 0 ? 1 : 16);
      const std::size_t bytes = ChunkedHeap::kLeast + random() % (most - ChunkedHeap::kLeast + 1);
      auto* const data = static_cast<std::byte*>(heap.allocate(bytes));
      REQUIRE(data != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(data) % 64 == 0);
      const Block block{data, bytes, static_cast<std::byte>(turn % 251)};
      std::memset(data, std::to_integer<int>(block.mark), bytes);
      blocks.push_back(block);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      CHECK(holds_its_mark(blocks.back()));
      CHECK(heap.release(blocks.back().data));
      blocks.pop_back();
    }
  }
  CHECK(heap.chunks() > 0);
  for (const Block& block : blocks) {
    CHECK(holds_its_mark(block));
    CHECK(heap.release(block.data));
  }
  CHECK(heap.chunks() == 0);
}

TEST_CASE("ChunkedHeap: neighbours that are released are one range again") {
  ChunkedHeap heap;
  constexpr std::size_t kQuarter = ChunkedHeap::kMost / 4;
  std::vector<void*> blocks;
  while (heap.chunks() < 2) blocks.push_back(heap.allocate(kQuarter));
  REQUIRE(blocks.size() == 32);  // 31 of them in the first chunk, for each has a gap behind it
  CHECK(heap.release(blocks.back()));
  CHECK(heap.chunks() == 1);
  for (const std::size_t i : {4U, 6U, 5U}) CHECK(heap.release(blocks[i]));
  CHECK(heap.allocate(3 * kQuarter) == blocks[4]);
  CHECK(heap.chunks() == 1);
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i)
    if (i != 5 && i != 6) CHECK(heap.release(blocks[i]));
  CHECK(heap.chunks() == 0);
}

TEST_CASE("ChunkedHeap: knows which blocks are its own") {
  ChunkedHeap heap;
  int other = 0;
  CHECK_FALSE(heap.release(&other));
  void* const block = heap.allocate(ChunkedHeap::kLeast);
  CHECK_FALSE(heap.release(&other));
  CHECK_FALSE(heap.release(static_cast<std::byte*>(block) + ChunkedHeap::kChunk));
  CHECK(heap.release(block));
  CHECK(heap.allocate(ChunkedHeap::kMost + 1) == nullptr);
  CHECK(heap.chunks() == 0);
}

#ifdef __linux__
TEST_CASE("ChunkedHeap: pages that no block lies in any more go back to the system") {
  ChunkedHeap heap;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(static_cast<std::byte*>(heap.allocate(ChunkedHeap::kMost)));
    std::memset(blocks.back(), 1, ChunkedHeap::kMost);
  }
  // Of the two in the middle, which begin a little behind the first page of 4 KiB that is theirs alone.
  const std::uintptr_t page = (reinterpret_cast<std::uintptr_t>(blocks[1]) + 4095) / 4096 * 4096;
  const auto resident = [&] {
    std::vector<unsigned char> pages(2 * ChunkedHeap::kMost / 4096 - 2);
    REQUIRE(mincore(reinterpret_cast<void*>(page), pages.size() * 4096, pages.data()) == 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char each) { return (each & 1U) != 0; }) * 4096 >> 10;
  };
  CHECK(resident() > 8000);  // KiB
  CHECK(heap.release(blocks[1]));
  CHECK(heap.release(blocks[2]));
  CHECK(resident() <= 2 * 2048);  // what lies in pages of 2 MiB beside the others
  CHECK(heap.release(blocks[0]));
  CHECK(heap.release(blocks[3]));
}
#endif
