// SPDX-License-Identifier: Apache-2.0
#pragma once

// What tests of loops on threads of the library and of a program share.

#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace tutti::testing {

using Part = std::function<void(int)>;

inline void in_order(int parts, const Part& part) {
  for (int i = 0; i < parts; ++i) part(i);
}

inline void backwards(int parts, const Part& part) {
  for (int i = parts; i-- > 0;) part(i);
}

inline void each_on_a_thread(int parts, const Part& part) {
  std::vector<std::thread> threads;
  for (int i = 0; i < parts; ++i) threads.emplace_back([&part, i] { part(i); });
  for (std::thread& thread : threads) thread.join();
}

/// Checks that loops visit each element once, in blocks of 8 whatever the threads.
inline void check_blocks(ThreadPool& pool) {
  for (const std::int64_t count : {0, 1, 7, 8, 9, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> blocks;
    pool.parallel_for(count, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      const std::lock_guard lock(mutex);
      blocks.insert({begin, end});
    });
    for (const auto& visit : visits) CHECK(visit == 1);
    CHECK(blocks.size() == static_cast<std::size_t>((count + 7) / 8));
    for (const auto& [begin, end] : blocks) {
      CHECK(begin % 8 == 0);
      CHECK(end == std::min(count, begin + 8));
    }
  }
}

}  // namespace tutti::testing
