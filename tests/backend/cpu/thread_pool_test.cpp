// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cpu/loops.h>
#include <tutti/tests/no_threads.h>

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

TEST_CASE("every element is visited once, in blocks that do not depend on the threads") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    testing::check_blocks(pool);
  }
}

TEST_CASE("workers take part, and wake again after they slept") {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> inside{0};
    // Each block waits for the other: only two threads can pass.
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    });
    CHECK(inside == 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_CASE("the first exception of a block reaches the caller, and the pool lives on") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round)
      CHECK_THROWS_WITH_AS(pool.parallel_for(100, 1,
                                             [](std::int64_t begin, std::int64_t) {
                                               if (begin == 17) throw std::runtime_error("block 17");
                                             }),
                           "block 17", std::runtime_error);
    std::atomic<int> sum{0};
    pool.parallel_for(100, 10, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
    CHECK(sum == 100);
  }
}

TEST_CASE("loops inside blocks and loops of several host threads all finish") {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        pool.parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
          pool.parallel_for(4, 1, [&](std::int64_t, std::int64_t) { ++total; });
        });
    });
  for (auto& host : hosts) host.join();
  CHECK(total == 4 * 50 * 8 * 4);
}

TEST_CASE("a pool can be resized while others use it") {
  ThreadPool pool(1);
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> bad{0};
  std::thread user([&] {
    while (!stop) {
      std::atomic<std::int64_t> sum{0};
      pool.parallel_for(64, 4, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      if (sum != 64) ++bad;
    }
  });
  for (const int threads : {3, 1, 2, 4, 1, 2}) {
    pool.resize(threads);
    CHECK(pool.threads() == threads);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  user.join();
  CHECK(bad == 0);
}

TEST_CASE("a pool for which no thread can be had says so, and goes on with one") {
  ThreadPool pool(2);
  {
    const testing::NoThreads none;
    CHECK_THROWS_WITH_AS(pool.resize(4), doctest::Contains("no thread can be started"), Error);
    CHECK_THROWS_AS(ThreadPool(3), Error);
  }
  CHECK(pool.threads() == 1);
  std::atomic<std::int64_t> sum{0};
  const auto add = [&](std::int64_t begin, std::int64_t end) { sum += end - begin; };
  pool.parallel_for(64, 4, add);
  pool.resize(3);
  pool.parallel_for(64, 4, add);
  CHECK(sum == 128);
}

TEST_CASE("the threads of a device are set by name") {
  const int before = cpu_threads(cpu(5));
  set_cpu_threads(cpu(5), 3);
  CHECK(cpu_threads(cpu(5)) == 3);
  CHECK(cpu_threads(cpu(6)) == before);
  set_cpu_threads(cpu(5), before);
  CHECK_THROWS_WITH_AS(set_cpu_threads(cpu(5), 0), doctest::Contains("0 threads for cpu:5"), DeviceError);
  CHECK_THROWS_AS(set_cpu_threads(cuda(0), 2), DeviceError);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
