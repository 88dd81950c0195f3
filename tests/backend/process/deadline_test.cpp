// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/deadline.h>

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = StandstillWatch::Clock;

TEST_CASE("deadline: never is a time that any clock can be asked for") {
  CHECK(bounded_wait("patience", milliseconds::max()) == kLongestWait);
  CHECK(bounded_wait("patience", 5ms) == 5ms);
  CHECK(Clock::now() + kLongestWait > Clock::now());
  CHECK(std::chrono::system_clock::now() + kLongestWait > std::chrono::system_clock::now());
  CHECK(std::chrono::nanoseconds(kLongestWait).count() > 0);
}

TEST_CASE("deadline: a duration that cannot be meant is refused by its name") {
  CHECK_THROWS_WITH_AS(bounded_wait("patience", -1ms), doctest::Contains("[patience] -1 ms"), Error);
  CHECK_THROWS_AS(bounded_wait("patience", milliseconds::min()), Error);
  CHECK_THROWS_WITH_AS(bounded_wait<SyncError>("patience", 0ms, 1ms), doctest::Contains("1 ms or more"), SyncError);
  CHECK(bounded_wait("patience", 0ms) == 0ms);
}

TEST_CASE("deadline: the watch tells a late look from a standstill") {
  Clock::time_point now{};
  StandstillWatch watch(10s, 300s, now);
  CHECK(watch.period() == 250ms);
  CHECK(watch.look(now += 250ms) == 0s);
  CHECK(watch.look(now += 1200ms) == 0s);  // a loaded machine
  CHECK(watch.look(now += 10250ms) == 10s);
  CHECK(watch.look(now += 250ms) == 0s);
  watch.skip_to(now += 60s);
  CHECK(watch.look(now += 250ms) == 0s);
  StandstillWatch never(kLongestWait, kLongestWait, now);
  CHECK(never.look(now += 2s) > 1s);
  StandstillWatch short_one(8ms, 100ms, now);
  CHECK(short_one.period() == 1ms);
  CHECK(short_one.look(now += 40ms) == 0s);
  CHECK(short_one.look(now += 60ms) == 59ms);
  StandstillWatch shortest(1ms, 1ms, now);
  for (int i = 0; i < 3; ++i) CHECK(shortest.look(now += 2ms) == 0s);  // woken late, as ever
}

TEST_CASE("deadline: a wait ends with its condition, or when its time has passed") {
  std::mutex mutex;
  std::condition_variable changed;
  bool known = false;
  std::unique_lock lock(mutex);
  CHECK_FALSE(wait_within(changed, lock, 0ms, [&] { return known; }));
  const auto start = Clock::now();
  CHECK_FALSE(wait_within(changed, lock, 100ms, [&] { return known; }));
  CHECK(Clock::now() - start >= 100ms);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    const std::lock_guard held(mutex);
    known = true;
    changed.notify_all();
  });
  CHECK(wait_within(changed, lock, kLongestWait, [&] { return known; }));
  lock.unlock();
  other.join();
}
