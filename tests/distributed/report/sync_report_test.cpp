// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_report.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace tutti;
using namespace tutti::testing;

namespace {

const SyncOptions kSingle{.bucket_bytes = 0};  // else both gradients would be one bucket

// `right` is used last in forward, so its gradient is final first.
Tensor two_stage_loss(const TwoBranches& model) { return use(tanh(tanh(model.left)) * model.right, 1.0); }

void train(GradientSync& sync, std::vector<TwoBranches>& replicas, int steps) {
  run_devices(replicas.size(), [&](std::size_t d) {
    for (int i = 0; i < steps; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(two_stage_loss(replicas[d]));
    }
    synchronize(test_device(d));  // what runs behind the host is told when it has finished
  });
}

}  // namespace

// One thread posts everything, so that the order of events is fixed.
TEST_CASE("sync_report: some reduction is launched before the last gradient of its round is final") {
  GradientSync sync(test_devices(2), kSingle);
  auto replicas = sync.replicate(TwoBranches{});
  for (int i = 0; i < 10; ++i) {
    for (auto& replica : replicas) replica.zero_grad();
    auto first = sync.step(test_device());
    auto second = sync.step(test_device(1));
    first.backward_async(two_stage_loss(replicas[0]));
    second.backward_async(two_stage_loss(replicas[1]));
    join_all(first, second);
  }
  const SyncReport report = sync.report();
  REQUIRE(report.steps.size() == 10);
  for (const SyncReport::Step& step : report.steps) {
    CHECK(SyncReport::overlapped(step));
    REQUIRE(step.reductions.size() == 2);
    CHECK(report.parameters[step.reductions[0].parameter.value] == "right");
    CHECK(step.reductions[0].launched < step.reductions[1].ready[1]);
  }
}

TEST_CASE("sync_report: what happens to a step happens in order, with a thread for each device") {
  GradientSync sync(test_devices(2), kSingle);
  auto replicas = sync.replicate(TwoBranches{});
  train(sync, replicas, 10);
  const SyncReport report = sync.report();
  for (const SyncReport::Step& step : report.steps) {
    for (const auto& reduction : step.reductions) {
      CHECK(reduction.finished >= reduction.launched);
      for (std::size_t d = 0; d < 2; ++d) {
        CHECK(reduction.ready[d] >= step.devices[d].begin);
        CHECK(reduction.ready[d] <= reduction.launched);
        CHECK(reduction.ready[d] <= step.devices[d].backward_end);
      }
    }
    for (const auto& device : step.devices) {
      CHECK(device.opened > SyncReport::Time{});
      CHECK(device.opened <= device.begin);
      CHECK(device.released >= device.backward_end);
      CHECK(device.joined >= device.released);
    }
    CHECK(SyncReport::skew(step).count() >= 0);
  }
}

TEST_CASE("sync_report: a step that accumulates is opened before its first micro-batch") {
  GradientSync sync(test_devices(1), kSingle);
  auto replicas = sync.replicate(TwoBranches{});
  auto step = sync.step(test_device());
  const auto opened = std::chrono::steady_clock::now();
  {
    const NoSync local = step.no_sync();
    backward(two_stage_loss(replicas[0]));
  }
  const auto accumulated = std::chrono::steady_clock::now();
  step.backward(two_stage_loss(replicas[0]));
  const SyncReport report = sync.report();
  REQUIRE(report.steps.size() == 1);
  CHECK(report.steps[0].devices[0].opened <= opened);
  CHECK(report.steps[0].devices[0].begin >= accumulated);
}

TEST_CASE("sync_report: keeps the last steps only") {
  GradientSync sync(test_devices(2), {.recorded_steps = 3});
  auto replicas = sync.replicate(TwoBranches{});
  train(sync, replicas, 8);
  const SyncReport report = sync.report();
  REQUIRE(report.steps.size() == 3);
  CHECK(report.steps.front().generation == 6);
  CHECK(report.steps.back().generation == 8);
}

TEST_CASE("sync_report: the Chrome trace is JSON with a track for each device and one for reductions") {
  GradientSync sync(test_devices(2), kSingle);
  auto replicas = sync.replicate(TwoBranches{});
  train(sync, replicas, 3);
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tutti-trace-{}.json", getpid())).string();
  write_chrome_trace(sync.report(), path);
  std::ifstream file(path);
  const auto trace = nlohmann::json::parse(file);
  std::remove(path.c_str());
  int tracks = 0;
  int backwards = 0;
  int reductions = 0;
  for (const auto& event : trace.at("traceEvents")) {
    tracks += event.at("ph") == "M";
    if (event.at("ph") != "X") continue;
    CHECK(event.at("dur").get<double>() >= 0.0);
    backwards += event.at("name") == "backward";
    reductions += event.at("tid") == 2;
  }
  CHECK(tracks == 3);
  CHECK(backwards == 6);
  CHECK(reductions == 6);
  CHECK_THROWS_WITH_AS(write_chrome_trace(sync.report(), "/nonexistent/trace.json"), doctest::Contains("/nonexistent"),
                       DataError);
}

TEST_CASE("sync_report: with reductions switched off gradients stay local") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean});
  auto replicas = sync.replicate(TwoBranches{});
  sync.set_reductions_enabled(false);
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1.0 + static_cast<double>(d)));
    CHECK(gradient_of(replicas[d].left) == Values(2, 1.0 + static_cast<double>(d)));
  });
}
