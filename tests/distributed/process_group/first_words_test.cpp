// SPDX-License-Identifier: Apache-2.0
// Words of processes about themselves, and what is concluded from those of all.
#include <tutti/distributed/process_group/first_words.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <sched.h>

#include <initializer_list>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

FirstWords process(std::initializer_list<std::size_t> cores, std::uint32_t threads) {
  FirstWords words;
  for (const std::size_t core : cores) words.cores.set(core);
  words.threads = threads;
  return words;
}

}  // namespace

TEST_CASE("first_words: they arrive as they were said") {
  set_cpu_threads(cpu(7), 3);
  const std::vector<Device> devices{cpu(7), cpu(2)};
  FirstWords said = FirstWords::of_this_process(devices);
  said.port = 4711;
  said.array_addresses = 1U << 20U;
  const auto heard = FirstWords::read(std::vector{said.bytes(), said.bytes()});
  REQUIRE(heard.size() == 2);
  for (const FirstWords& each : heard) {
    CHECK(each.nonce == said.nonce);
    CHECK(each.memory == said.memory);
    CHECK(each.cores == allowed_cores());
    CHECK(each.threads == 4);
    CHECK(each.port == 4711);
    CHECK(each.array_addresses == 1U << 20U);
    CHECK(each.devices == std::vector<std::uint16_t>{7, 2});
  }
  auto short_words = said.bytes();
  short_words.resize(20);
  CHECK_THROWS_WITH_AS(FirstWords::read(std::vector{said.bytes(), short_words}),
                       "[sync] rank 1 said 20 bytes about its devices", SyncError);
  set_cpu_threads(cpu(7), 1);
}

TEST_CASE("first_words: this process may run where its affinity says") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const Cores all = allowed_cores();
  CHECK(all.count() == static_cast<std::size_t>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  std::size_t core = 0;
  while (!all[core]) ++core;
  CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const Cores bound = FirstWords::of_this_process(std::vector{cpu(0)}).cores;
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(bound.count() == 1);
  CHECK(bound[core]);
}

TEST_CASE("first_words: cores are free where each thread has one of those on which its process may run") {
  const auto free = [](std::vector<FirstWords> all, int rank = 0) { return FirstWords::cores_are_free(all, rank); };
  CHECK(free({process({0, 1}, 1), process({0, 1}, 1)}));
  CHECK(free({process({0}, 1), process({1}, 1)}));  // as mpirun binds them
  CHECK_FALSE(free({process({0}, 1), process({0}, 1)}));
  CHECK_FALSE(free({process({0, 1}, 1), process({0, 1}, 2)}));
  CHECK_FALSE(free({process({0}, 2), process({1, 2, 3}, 1)}));
  CHECK(free({process({0}, 2), process({1, 2, 3}, 1)}, 1));
  CHECK_FALSE(free({process({}, 1), process({}, 1)}));  // not known
}

TEST_SUITE_END();
