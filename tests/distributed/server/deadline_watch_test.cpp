// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/deadline_watch.h>

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using std::chrono::milliseconds;

TEST_CASE("deadline_watch: looks at the deadlines by itself") {
  std::promise<void> looked;
  std::atomic<int> looks = 0;
  DeadlineWatch watch(milliseconds(8), milliseconds(8),
                      {.warn = [](const std::string&) {},
                       .check =
                           [&](const auto&) {
                             if (++looks == 3) looked.set_value();
                           }});
  CHECK(looked.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready);
}

TEST_CASE("deadline_watch: tells every warning, in order, also those that are left when it stops") {
  std::vector<std::string> told;  // read after `stop` has joined the thread
  DeadlineWatch watch(milliseconds(100'000), milliseconds(100'000),
                      {.warn =
                           [&](const std::string& text) {
                             told.push_back(text);
                             throw std::runtime_error("ignored");
                           },
                       .check = [](const auto&) {}});
  watch.tell("first");
  watch.tell("second");
  watch.stop();
  watch.stop();
  CHECK(told == std::vector<std::string>{"first", "second"});
}

TEST_CASE("deadline_watch: no callback of its own is a standstill, nor is its end") {
  std::promise<void> warned;
  std::promise<void> goes_on;
  DeadlineWatch watch(milliseconds(1), milliseconds(1),
                      {.warn =
                           [&](const std::string&) {
                             warned.set_value();
                             goes_on.get_future().wait();
                           },
                       .check = [](const auto&) {}});
  watch.tell("takes its time");
  warned.get_future().wait();
  std::this_thread::sleep_for(milliseconds(50));  // more than the 20 ms that it tolerates
  const auto in_callback = watch.stood_still(milliseconds(0));
  goes_on.set_value();
  watch.stop();
  std::this_thread::sleep_for(milliseconds(50));
  CHECK(in_callback.count() == 0);
  CHECK(watch.stood_still(milliseconds(0)).count() == 0);
}

TEST_SUITE_END();
