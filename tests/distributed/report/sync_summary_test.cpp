// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_summary.h>

#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <cmath>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using std::chrono::microseconds;

namespace {

SyncReport::Time at(int microsecond) { return SyncReport::Time{} + microseconds(microsecond); }

// Two devices, whose forwards take 30 us: cpu:1 ends its backward 20 us after cpu:0. "a" is reduced before that, half
// of "b" after it.
SyncReport::Step step_at(int start) {
  SyncReport::Step step;
  step.generation = 1;
  step.devices = {{at(start - 30), at(start), at(start + 40), at(start + 60), at(start + 80)},
                  {at(start - 25), at(start + 5), at(start + 60), at(start + 60), at(start + 100)}};
  step.reductions = {{{0}, {at(start + 10), at(start + 14)}, at(start + 16), at(start + 26), {}},
                     {{1}, {at(start + 39), {}}, at(start + 50), at(start + 70), {}}};
  return step;
}

SyncReport report_of(std::vector<SyncReport::Step> steps) {
  return {members_of(test_devices(2)), {"a", "b"}, std::move(steps)};
}

}  // namespace

TEST_CASE("sync_summary: known times") {
  const SyncSummary summary = summarize(report_of({step_at(100), step_at(300), step_at(700)}));
  CHECK(summary.steps == 3);
  CHECK(summary.step_time == microseconds(100));
  CHECK(summary.skew == microseconds(20));
  CHECK(summary.lateness == std::vector<std::chrono::nanoseconds>{microseconds(0), microseconds(20)});
  CHECK(summary.hidden == doctest::Approx(20.0 / 30.0));
  CHECK_FALSE(summary.exposed);
  REQUIRE(summary.parameters.size() == 2);
  CHECK(summary.parameters[0].name == "b");  // the slower one
  CHECK(summary.parameters[0].reduction == microseconds(20));
  CHECK(summary.parameters[0].queued == microseconds(11));
  CHECK(summary.parameters[0].spread == microseconds(0));
  CHECK(summary.parameters[0].hidden == doctest::Approx(0.5));
  CHECK(summary.parameters[1].reduction == microseconds(10));
  CHECK(summary.parameters[1].queued == microseconds(2));
  CHECK(summary.parameters[1].spread == microseconds(4));
  CHECK(summary.parameters[1].hidden == doctest::Approx(1.0));
}

TEST_CASE("sync_summary: a bucket's time counts once, however many parameters it has") {
  SyncReport::Step step = step_at(100);
  step.reductions.insert(step.reductions.begin(), 3, step.reductions.front());
  CHECK(summarize(report_of({step, step_at(300)})).hidden == doctest::Approx(20.0 / 30.0));
}

TEST_CASE("sync_summary: exposed time is the median step less the median step without reductions") {
  auto quick = step_at(900);
  quick.reductions_enabled = false;
  quick.devices[1].joined = at(970);
  quick.devices[0].joined = at(965);
  auto slow = step_at(1200);
  slow.devices[1].joined = at(1340);
  const SyncSummary summary = summarize(report_of({step_at(100), quick, slow}));
  CHECK(summary.steps == 2);
  CHECK(summary.step_time == microseconds(120));  // of 100 and 140
  REQUIRE(summary.exposed);
  CHECK(*summary.exposed == microseconds(50));
}

TEST_CASE("sync_summary: exposed time that is noise is called so") {
  const auto report = [](int longer) {
    std::vector<SyncReport::Step> steps;
    for (int i = 0; i < 16; ++i) {  // the last join 96 to 104 us after the beginning, in turns with and without
      steps.push_back(step_at(1000 * i));
      steps.back().reductions_enabled = i % 2 == 0;
      steps.back().devices[1].joined = at(1000 * i + 96 + i / 2 + (i % 2 == 0 ? longer : 0));
    }
    return report_of(std::move(steps));
  };
  const SyncSummary noisy = summarize(report(1));
  REQUIRE(noisy.exposed_noise);
  CHECK(*noisy.exposed == microseconds(1));
  CHECK(noisy.exposed_noise->count() == doctest::Approx(1820 * 3 * std::sqrt(2.0 / 8)).epsilon(1e-3));
  CHECK(summary_text(report(1)).find("exposed nothing above the noise of 2.7 us\n") != std::string::npos);
  CHECK(summary_text(report(30)).find("exposed 30.0 us (+- 2.7)\n") != std::string::npos);

  auto without = step_at(300);
  without.reductions_enabled = false;
  const SyncReport few = report_of({step_at(100), without});
  CHECK_FALSE(summarize(few).exposed_noise);
  CHECK(summary_text(few).find("exposed 0.0 us (of too few steps to be sure)") != std::string::npos);
}

TEST_CASE("sync_summary: steps under way, devices that left and reductions in flight do not count") {
  auto open = step_at(500);
  open.devices[0].joined = {};
  auto alone = step_at(100);
  alone.devices[1] = {};
  alone.reductions[1].finished = {};
  const SyncSummary summary = summarize(report_of({alone, open}));
  CHECK(summary.steps == 1);
  CHECK(summary.step_time == microseconds(80));
  CHECK(summary.skew == microseconds(0));
  CHECK(summary.parameters.size() == 1);
  CHECK(summarize(report_of({})).steps == 0);
}

TEST_CASE("sync_summary: the table lists the slowest parameters only") {
  const SyncReport report = report_of({step_at(100)});
  CHECK(summary_text(report, 1) ==
        "1 steps, median 100.0 us; skew 20.0 us; 67 % of reduction time hidden; exposed not measured (no steps with "
        "reductions switched off)\n"
        "\n"
        "device                     late by us\n"
        "cpu:0                             0.0\n"
        "cpu:1                            20.0\n"
        "\n"
        "slowest parameters       reduction us    queued us    spread us  hidden %\n"
        "b                                20.0         11.0          0.0        50\n");
}

TEST_CASE("sync_summary: a group's own report, with reductions switched off in every other step") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(TwoBranches{});
  for (int i = 0; i < 6; ++i) {
    sync.set_reductions_enabled(i % 2 == 0);
    run_devices(2, [&](std::size_t d) {
      replicas[d].zero_grad();
      auto step = sync.step(cpu(static_cast<std::uint16_t>(d)));
      step.backward(use(replicas[d].left, 1.0));
    });
  }
  const SyncSummary summary = summarize(sync.report());
  CHECK(summary.steps == 3);
  CHECK(summary.exposed.has_value());
  REQUIRE(summary.parameters.size() == 1);
  CHECK(summary.parameters[0].name == "left");
  CHECK((summary.hidden >= 0.0 && summary.hidden <= 1.0));
}

TEST_SUITE_END();
