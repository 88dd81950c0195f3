// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/deadline_watch.h>

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
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

TEST_SUITE_END();
