// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

using Blocks = std::vector<std::pair<void*, std::size_t>>;

void give_all(Blocks& blocks) {
  for (const auto& [block, bytes] : blocks) detail::give_small_block(block, bytes);
  blocks.clear();
}

/// Blocks that are given back when the thread's own variables go, after its cache.
struct GivenLate {
  Blocks blocks;
  ~GivenLate() { give_all(blocks); }
};
thread_local GivenLate given_late;

}  // namespace

TEST_CASE("thread cache: a block that is given back is taken again, by requests of its size" *
          doctest::skip(testing::kIsSanitized)) {
  for (const std::size_t bytes : {1UL, 64UL, 65UL, 1000UL, 1025UL, 5000UL, 1UL << 20U}) {
    CAPTURE(bytes);
    void* const block = detail::take_small_block(bytes);
    std::memset(block, 1, bytes);
    detail::give_small_block(block, bytes);
    void* const again = detail::take_small_block(bytes);
    CHECK(again == block);
    detail::give_small_block(again, bytes);
  }
  void* const kept = detail::take_small_block(100);
  detail::give_small_block(kept, 100);
  void* const shorter = detail::take_small_block(70);  // 128 bytes, as the other
  CHECK(shorter == kept);
  void* const other = detail::take_small_block(100);
  CHECK(other != kept);
  give_all(*std::make_unique<Blocks>(Blocks{{shorter, 70}, {other, 100}}));
}

TEST_CASE("thread cache: blocks cross threads, outlive them, and are given back when a thread ends") {
  Blocks crossing;
  for (int round = 0; round < 4; ++round) {
    std::thread([&] {
      given_late.blocks.emplace_back(detail::take_small_block(77), 77);
      give_all(crossing);
      for (std::size_t i = 1; i < 300; ++i) {
        const std::size_t bytes = i * i * 20;
        crossing.emplace_back(detail::take_small_block(bytes), bytes);
        std::memset(crossing.back().first, round, bytes);
      }
    }).join();
  }
  give_all(crossing);  // more than a thread keeps
}

TEST_CASE("thread cache: lists and shared objects") {
  CachedVector<int> list;
  for (int i = 0; i < 10000; ++i) list.push_back(i);
  CHECK(list[9999] == 9999);
  const auto shared = make_cached<std::vector<int>>(3, 7);
  CHECK(*shared == std::vector<int>{7, 7, 7});
  CHECK_THROWS_AS(ThreadCacheAllocator<int>().allocate(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
}

TEST_SUITE_END();
