// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/loop_executor.h>

#include <tutti/backend/cpu/runtime/thread_pool.h>
#include <tutti/backend/error.h>
#include <tutti/tests/backend/cpu/loops.h>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using testing::backwards;
using testing::each_on_a_thread;
using testing::in_order;
using testing::Part;

void have_run_by(ThreadPool& pool, int threads, CpuExecutor executor) {
  pool.run_by(std::make_unique<LoopExecutor>(cpu(3), std::move(executor)), threads);
}

/// The sum over a loop of `count` blocks, each of one element.
std::int64_t count_blocks(ThreadPool& pool, std::int64_t count) {
  std::atomic<std::int64_t> sum{0};
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
  return sum;
}

TEST_CASE("executor: every element is visited once, in the blocks that workers take") {
  for (const CpuExecutor& executor : {CpuExecutor(in_order), CpuExecutor(backwards), CpuExecutor(each_on_a_thread)}) {
    ThreadPool pool(1);
    have_run_by(pool, 3, executor);
    CHECK(pool.threads() == 3);
    testing::check_blocks(pool);
  }
}

TEST_CASE("executor: parts are as many as threads or blocks, and it is not asked for what is one part") {
  ThreadPool pool(1);
  std::vector<int> asked;
  have_run_by(pool, 4, [&](int parts, const Part& part) {
    asked.push_back(parts);
    in_order(parts, part);
  });
  for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 100}) CHECK(count_blocks(pool, count) == count);
  CHECK(asked == std::vector<int>{2, 3, 4, 4, 4});
  asked.clear();
  pool.resize(2);
  CHECK(count_blocks(pool, 100) == 100);
  pool.resize(1);
  CHECK(count_blocks(pool, 100) == 100);
  CHECK(asked == std::vector<int>{2});
  pool.run_by(nullptr, 3);
  CHECK(pool.threads() == 3);
  CHECK(count_blocks(pool, 100) == 100);
  CHECK(asked == std::vector<int>{2});
}

TEST_CASE("executor: one that breaks its word is an error that names the device, and the next loop runs") {
  bool honest = false;
  CpuExecutor executor;
  ThreadPool pool(1);
  have_run_by(pool, 3, [&](int parts, const Part& part) { honest ? in_order(parts, part) : executor(parts, part); });
  const auto check = [&](const char* said, CpuExecutor broken) {
    executor = std::move(broken);
    honest = false;
    CHECK_THROWS_WITH_AS(count_blocks(pool, 100), said, Error);
    honest = true;
    CHECK(count_blocks(pool, 100) == 100);
  };
  check("[set_cpu_executor] cpu:3: the executor returned without a call of part 0 of 3", [](int, const Part&) {});
  check("[set_cpu_executor] cpu:3: the executor returned without a call of part 2 of 3", [](int, const Part& part) {
    part(0);
    part(1);
  });
  check("[set_cpu_executor] cpu:3: the executor called part 1 twice", [](int parts, const Part& part) {
    in_order(parts, part);
    part(1);
  });
  check("[set_cpu_executor] cpu:3: the executor called part 3 of 3",
        [](int parts, const Part& part) { in_order(parts + 1, part); });
  check("[set_cpu_executor] cpu:3: the executor called part -1 of 3", [](int parts, const Part& part) {
    in_order(parts, part);
    part(-1);
  });
}

TEST_CASE("executor: parts that still run when it returns are waited for, and are an error") {
  std::atomic<int> finished{0};
  std::atomic<bool> begun{false};
  std::vector<std::future<void>> tasks;
  ThreadPool pool(1);
  have_run_by(pool, 2, [&](int, const Part& part) {
    tasks.push_back(std::async(std::launch::async, [&part] { part(0); }));  // by reference: it lives until then
    while (!begun) std::this_thread::yield();
    part(1);
  });
  const auto run = [&] {
    pool.parallel_for(2, 1, [&](std::int64_t begin, std::int64_t) {
      if (begin == 0) {
        begun = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      ++finished;
    });
  };
  CHECK_THROWS_WITH_AS(run(), "[set_cpu_executor] cpu:3: the executor returned while 1 of 2 parts still ran", Error);
  CHECK(finished == 2);
  tasks.clear();
}

TEST_CASE("executor: a part that is called when the loop is over does nothing") {
  Part late;
  ThreadPool pool(1);
  have_run_by(pool, 2, [&](int, const Part& part) {
    late = part;
    part(0);
  });
  CHECK_THROWS_WITH_AS(count_blocks(pool, 100), doctest::Contains("without a call of part 1"), Error);
  late(1);
  late(0);
  late(7);
}

TEST_CASE("executor: what it throws, and what a block throws, comes out of the loop") {
  ThreadPool pool(1);
  std::atomic<int> running{0};
  for (const int called : {0, 1, 3}) {
    have_run_by(pool, 3, [&](int, const Part& part) {
      for (int i = 0; i < called; ++i) part(i);
      throw std::runtime_error("no room");
    });
    CHECK_THROWS_WITH_AS(count_blocks(pool, 100), "no room", std::runtime_error);
  }
  have_run_by(pool, 3, each_on_a_thread);
  CHECK(count_blocks(pool, 100) == 100);
  const auto fail = [&] {
    pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) {
      ++running;
      if (begin == 17) throw std::runtime_error("block 17");
      --running;
    });
  };
  CHECK_THROWS_WITH_AS(fail(), "block 17", std::runtime_error);
  CHECK(running == 1);
  CHECK(count_blocks(pool, 100) == 100);
}

TEST_CASE("executor: loops within parts, and within what it runs besides, run where they are") {
  ThreadPool pool(1);
  std::atomic<int> calls{0};
  std::int64_t besides = 0;
  have_run_by(pool, 3, [&](int parts, const Part& part) {
    ++calls;
    besides += count_blocks(pool, 10);  // on the calling thread
    std::thread([&] { besides += count_blocks(pool, 10); }).join();
    each_on_a_thread(parts, part);
    besides += count_blocks(pool, 10);
    CHECK_THROWS_WITH_AS(pool.run_by(nullptr, 1), doctest::Contains("within a loop"), Error);
    pool.resize(1);  // as at the end of the process
  });
  std::atomic<std::int64_t> total{0};
  pool.parallel_for(8, 1, [&](std::int64_t, std::int64_t) { total += count_blocks(pool, 4); });
  CHECK(total == 32);
  CHECK(besides == 30);
  CHECK(calls == 1);
  CHECK(pool.threads() == 3);
}

TEST_CASE("executor: loops of several host threads all finish, and it is called by one at a time") {
  ThreadPool pool(1);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  have_run_by(pool, 3, [&](int parts, const Part& part) {
    const int now = ++inside;
    if (now > most) most = now;
    backwards(parts, part);
    --inside;
  });
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&] {
      for (int round = 0; round < 50; ++round) total += count_blocks(pool, 32);
    });
  for (int round = 0; round < 20; ++round) pool.resize(round % 3 + 1);
  for (auto& host : hosts) host.join();
  CHECK(total == 4 * 50 * 32);
  CHECK(most <= 1);
}

TEST_CASE("executor: a child runs its loops itself, and takes no other") {
  ThreadPool pool(1);
  std::atomic<int> calls{0};
  have_run_by(pool, 3, [&](int parts, const Part& part) {
    ++calls;
    in_order(parts, part);
  });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that hangs
    const bool counts = count_blocks(pool, 100) == 100 && calls == 0;
    bool refuses = false;
    try {
      pool.run_by(nullptr, 2);
    } catch (const Error& error) {
      refuses = std::string(error.what()).starts_with("[set_cpu_executor] the first CPU device was made in process ");
    }
    _exit(counts && refuses ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(count_blocks(pool, 100) == 100);
  CHECK(calls == 1);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
