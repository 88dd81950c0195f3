// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/step_agreement.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/device_threads.h>

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

using namespace tutti;
using std::chrono::milliseconds;

TEST_SUITE_BEGIN("cpu");

namespace {

std::vector<Device> devices(std::size_t count) {
  std::vector<Device> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(cpu(static_cast<std::uint16_t>(i)));
  return all;
}

}  // namespace

TEST_CASE("StepAgreement: all stop before the first step that none has begun") {
  StepAgreement agreement(devices(3));
  CHECK_FALSE(agreement.stops_before(0, 4));
  CHECK_FALSE(agreement.stops_before(1, 5));
  agreement.request_stop("enough");
  agreement.request_stop("too late");
  CHECK_FALSE(agreement.stops_before(2, 4));
  CHECK_FALSE(agreement.stops_before(0, 5));
  CHECK(agreement.stops_before(1, 6) == "enough");
  CHECK_FALSE(agreement.stops_before(2, 5));
  CHECK(agreement.stops_before(2, 6) == "enough");
  CHECK(agreement.stops_before(0, 6) == "enough");
  agreement.reset();
  CHECK_FALSE(agreement.stops_before(0, 7));
}

TEST_CASE("StepAgreement: who has data does not wait; who has none learns whether another has") {
  StepAgreement agreement(devices(2));
  CHECK(agreement.any_data(0, true));
  CHECK(agreement.any_data(1, false));
  bool found = true;
  std::thread waiting([&] { found = agreement.any_data(0, false); });
  CHECK_FALSE(agreement.any_data(1, false));
  waiting.join();
  CHECK_FALSE(found);
  CHECK(agreement.any_data(1, true));  // the next epoch
}

TEST_CASE("StepAgreement: an answer holds also if the other device has gone on to the next epoch") {
  for (int repeat = 0; repeat < 200; ++repeat) {
    StepAgreement agreement(devices(2));
    bool late = true;
    std::thread waiting([&] { late = agreement.any_data(0, false); });
    CHECK_FALSE(agreement.any_data(1, false));
    CHECK(agreement.any_data(1, true));  // maybe before the other has woken up
    waiting.join();
    CHECK_FALSE(late);
  }
}

TEST_CASE("StepAgreement: answers are those to the call, however far another device has gone on") {
  StepAgreement agreement(devices(2));
  bool late = true;
  std::thread waiting([&] { late = agreement.any_data(0, false); });
  CHECK_FALSE(agreement.any_data(1, false));
  for (int call = 0; call < 5; ++call) CHECK(agreement.any_data(1, true));
  waiting.join();
  CHECK_FALSE(late);
  for (int call = 0; call < 5; ++call) CHECK(agreement.any_data(0, false));  // the other had data in each
}

TEST_CASE("StepAgreement: an error that is no echo of another's takes an echo's place") {
  StepAgreement agreement(devices(2));
  agreement.fail(0, std::make_exception_ptr(SyncError("cpu:1 failed")));
  CHECK_THROWS_WITH(agreement.stops_before(0, 1), "cpu:1 failed");
  agreement.fail(1, std::make_exception_ptr(std::runtime_error("the cause")));
  agreement.fail(0, std::make_exception_ptr(std::runtime_error("another one")));
  CHECK_THROWS_WITH(agreement.stops_before(0, 1), "[training] cpu:1 failed: the cause");
  CHECK_THROWS_WITH(std::rethrow_exception(agreement.first_error()), "the cause");
}

TEST_CASE("StepAgreement: stops only where devices may") {
  StepAgreement agreement(devices(2));
  CHECK_FALSE(agreement.stops_before(0, 1));
  agreement.request_stop("enough");
  CHECK_FALSE(agreement.stops_before(0, 2, false));
  CHECK_FALSE(agreement.stops_before(1, 2, false));
  CHECK(agreement.stops_before(0, 3));
  CHECK(agreement.stops_before(1, 3));
}

TEST_CASE("StepAgreement: an error of one ends the others' waits; a device that says nothing is named") {
  StepAgreement failing(devices(2));
  std::thread broken([&] { failing.fail(1, std::make_exception_ptr(std::runtime_error("broken"))); });
  CHECK_THROWS_WITH_AS(failing.any_data(0, false), "[training] cpu:1 failed: broken", SyncError);
  broken.join();
  CHECK_THROWS_WITH(failing.stops_before(0, 1), "[training] cpu:1 failed: broken");
  StepAgreement silent(devices(3), {.fail_after = milliseconds(20)});
  std::thread other([&] { CHECK_THROWS_AS(silent.any_data(2, false), Error); });
  CHECK_THROWS_WITH_AS(silent.any_data(0, false), doctest::Contains("to hear from cpu:1"), Error);
  other.join();
  // Who has waited in vain has not failed: the others hear what it said.
  StepAgreement told(devices(3), {.fail_after = milliseconds(20)});
  try {
    told.any_data(0, false);
  } catch (...) {
    told.fail(0, std::current_exception());
  }
  CHECK_THROWS_WITH_AS(told.stops_before(2, 1),
                       "[training] cpu:0 has no more data and has waited 20 ms to hear from cpu:1, cpu:2", SyncError);
}

TEST_CASE("StepAgreement: devices with any numbers of steps end each epoch together") {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    constexpr std::size_t kDevices = 4;
    constexpr int kEpochs = 5;
    StepAgreement agreement(devices(kDevices));
    std::vector<std::vector<int>> lengths(kDevices, std::vector<int>(kEpochs));
    for (auto& own : lengths)
      for (int& length : own) length = static_cast<int>(random() % 4);
    std::vector<std::vector<int>> steps(kDevices, std::vector<int>(kEpochs));
    std::atomic<int> arrived{0};
    testing::run_devices(kDevices, [&](std::size_t d) {
      int total = 0;
      for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
        for (int i = 0; agreement.any_data(d, i < lengths[d][epoch]); ++i) {
          ++steps[d][epoch];
          ++total;
          ++arrived;  // a step ends when all devices have come
          while (arrived < total * static_cast<int>(kDevices)) std::this_thread::yield();
        }
    });
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      int longest = 0;
      for (const auto& own : lengths) longest = std::max(longest, own[epoch]);
      for (const auto& own : steps) CHECK(own[epoch] == longest);
    }
  }
}

TEST_CASE("StepAgreement: devices meet, and who is missing is named with what the others wait for") {
  StepAgreement agreement(devices(2), {.fail_after = milliseconds(50)});
  CHECK_THROWS_WITH_AS(agreement.meet(0, "is to begin"),
                       "[training] cpu:0 is to begin and has waited 50 ms to hear from cpu:1", Error);
  agreement.meet(1, "is to begin");
  CHECK_THROWS_WITH_AS(agreement.evaluation_stopped(1, false), doctest::Contains("from cpu:0"), Error);
}

TEST_CASE("StepAgreement: a deadline of never waits, and none is negative") {
  constexpr milliseconds kNever = milliseconds::max();
  for (const auto& waits : {SyncOptions{.warn_after = kNever, .fail_after = kNever}, SyncOptions{.fail_after = kNever},
                            SyncOptions{.warn_after = kNever}}) {
    StepAgreement agreement(devices(2), waits);
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(300));
      agreement.meet(1, "is to begin");
    });
    CHECK_NOTHROW(agreement.meet(0, "is to begin"));
    other.join();
  }
  CHECK_THROWS_WITH_AS(StepAgreement(devices(2), {.warn_after = milliseconds(-1)}), doctest::Contains("warn_after"),
                       SyncError);
  CHECK_THROWS_WITH_AS(StepAgreement(devices(2), {.fail_after = milliseconds(-1)}), doctest::Contains("fail_after"),
                       SyncError);
}

TEST_CASE("StepAgreement: a long wait is reported once, with who is missing, before it fails") {
  std::mutex mutex;
  std::vector<std::string> warnings;
  std::condition_variable warned;
  StepAgreement* told = nullptr;
  StepAgreement agreement(
      devices(3),
      {.warn_after = milliseconds(400), .fail_after = std::chrono::seconds(60), .warn = [&](const std::string& text) {
         CHECK_FALSE(told->stop_is_requested());  // it may be called from here
         const std::lock_guard lock(mutex);
         warnings.push_back(text);
         warned.notify_all();
       }});
  told = &agreement;
  std::vector<std::thread> waiting;
  for (const std::size_t device : {0U, 2U})
    waiting.emplace_back([&, device] { agreement.meet(device, "is to begin"); });
  {
    std::unique_lock lock(mutex);
    CHECK(warned.wait_for(lock, std::chrono::seconds(60), [&] { return !warnings.empty(); }));
  }
  std::this_thread::sleep_for(milliseconds(600));  // the other has waited as long
  agreement.meet(1, "is to begin");
  for (auto& thread : waiting) thread.join();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].ends_with("is to begin and has waited 400 ms to hear from cpu:1"));
}

TEST_CASE(
    "StepAgreement: an evaluation that is stopped on one device is stopped on all, and an error reaches who waits") {
  StepAgreement agreement(devices(2), {.fail_after = std::chrono::seconds(20)});
  agreement.request_stop("enough");
  std::optional<std::string> other;
  std::thread waiting([&] { other = agreement.evaluation_stopped(1, false); });
  CHECK(agreement.evaluation_stopped(0, true) == "enough");
  waiting.join();
  CHECK(other == "enough");

  std::string heard;
  std::thread meeting([&] {
    try {
      agreement.meet(1, "waits");
    } catch (const std::runtime_error& error) {
      heard = error.what();
    }
  });
  agreement.fail(0, std::make_exception_ptr(std::runtime_error("it broke")));
  meeting.join();
  CHECK(heard == "[training] cpu:0 failed: it broke");
}

TEST_SUITE_END();
