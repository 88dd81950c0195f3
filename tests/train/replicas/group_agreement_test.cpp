// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/group_agreement.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/train/replicas/group_texts.h>

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

TEST_SUITE_BEGIN("cpu");

namespace {

const std::vector<Device> kThree{cpu(0), cpu(1), cpu(2)};

}  // namespace

TEST_CASE("GroupAgreement: data that any device has is data for all, and none waits for those that have some") {
  GradientSync sync(kThree);
  GroupAgreement agreement(sync);
  // Alone, before the others' threads begin: it has data.
  std::thread first([&] { CHECK(agreement.any_data(0, true)); });
  first.join();
  run_devices(3, [&](std::size_t d) {
    if (d > 0) CHECK(agreement.any_data(d, false));
    CHECK(agreement.any_data(d, d == 2));
    CHECK_FALSE(agreement.any_data(d, false));
  });
}

TEST_CASE("GroupAgreement: a stop is heard with the next word, and all stop before the same step by its reason") {
  GradientSync sync(kThree);
  GroupAgreement agreement(sync);
  std::array<std::int64_t, 3> stopped_at{};
  run_devices(3, [&](std::size_t d) {
    for (std::int64_t step = 0; step < 20; ++step) {
      if (const auto reason = agreement.stops_before(d, step, step % 2 == 0)) {
        CHECK(*reason == "enough");
        stopped_at[d] = step;
        return;
      }
      CHECK(agreement.any_data(d, true));
      if (d == 1 && step == 4) agreement.request_stop("enough");
    }
  });
  // Within step 4; device 1 says so with step 5, another may with step 4 already; it may be at an even one only.
  CHECK(stopped_at[0] == 6);
  CHECK(stopped_at[1] == stopped_at[0]);
  CHECK(stopped_at[2] == stopped_at[0]);
  agreement.reset();
  run_devices(3, [&](std::size_t d) { CHECK_FALSE(agreement.stops_before(d, 0, true)); });
}

TEST_CASE("GroupAgreement: what is asked for before a meeting all hear, and an evaluation that any has stopped") {
  GradientSync sync(kThree);
  GroupAgreement agreement(sync);
  run_devices(3, [&](std::size_t d) {
    CHECK_FALSE(agreement.evaluation_stopped(d, false));
    if (d == 2) agreement.request_stop("now");
    agreement.meet(d, "is to begin");
    CHECK(agreement.evaluation_stopped(d, d == 2) == "now");
    CHECK(agreement.stops_before(d, 0, true) == "now");
  });
}

TEST_CASE("GroupAgreement: a stop that came with the last step is told to all at the end") {
  GradientSync sync(kThree);
  GroupAgreement agreement(sync);
  run_devices(3, [&](std::size_t d) {
    CHECK(agreement.late_stop(d) == "");
    CHECK(agreement.any_data(d, true));
    if (d == 1) agreement.request_stop("enough");
    CHECK(agreement.late_stop(d) == "enough");
  });
}

TEST_CASE("GroupAgreement: a device that fails ends the others' waits by an error that names it") {
  GradientSync sync(kThree);
  GroupAgreement agreement(sync);
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    if (d == 1) {
      const auto error = std::make_exception_ptr(std::runtime_error("the disk is full"));
      agreement.fail(d, error);
      sync.fail(cpu(1), error);
      return;
    }
    agreement.meet(d, "is to begin");
  });
  CHECK(errors[0].find("cpu:1 failed") != std::string::npos);
  CHECK(errors[2].find("the disk is full") != std::string::npos);
}

TEST_CASE("gather_texts: texts of any bytes, by number, of those that give one") {
  GradientSync sync(kThree);
  const std::array<std::optional<std::string>, 3> texts{"3:a\nb", std::nullopt, ""};
  run_devices(3, [&](std::size_t d) {
    CHECK(gather_texts(sync, kThree[d], texts[d], "a test") == std::vector<std::string>{"3:a\nb", ""});
    CHECK(gather_texts(sync, kThree[d], std::nullopt, "a test").empty());
  });
  CHECK(gather_from_processes(sync, "alone", "a test") == std::vector<std::string>{"alone"});
}
