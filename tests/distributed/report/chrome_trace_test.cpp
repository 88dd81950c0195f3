// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/chrome_trace.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kSteps = 3;

/// Trains on each of the process's devices, a thread for each.
void train(GradientSync& sync) {
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(replicas.size(), [&](std::size_t d) {
    for (int i = 0; i < kSteps; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(sync.devices()[d]);
      step.backward(use(tanh(replicas[d].left) * replicas[d].right, 1.0));
    }
  });
}

}  // namespace

TEST_CASE("chrome_trace: one file has the tracks of all processes, in one time") {
  for (const bool connects : {false, true}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("trace.json");
    ProcessThreads group({2, 1}, connects);
    const auto errors = group.run({.bucket_bytes = 0}, [&](std::size_t, GradientSync& sync) {
      train(sync);
      write_chrome_trace(sync, path);
    });
    CHECK(errors == std::vector<std::string>(2));
    std::ifstream file(path);
    const auto trace = nlohmann::json::parse(file);
    std::set<std::string> names;
    std::map<int, int> backwards;
    std::map<int, int> reductions;
    std::set<std::vector<double>> forwards_ended;  // process, track, time
    std::set<std::vector<double>> backwards_begun;
    double first = 1e18;
    double last = 0.0;
    for (const auto& event : trace.at("traceEvents")) {
      const int process = event.at("pid");
      const auto at = [&](double time) { return std::vector{1.0 * process, event.at("tid").get<double>(), time}; };
      if (event.at("ph") == "M") names.insert(event.at("args").at("name"));
      if (event.at("ph") != "X") continue;
      const double begin = event.at("ts");
      const double end = begin + event.at("dur").get<double>();
      first = std::min(first, begin);
      last = std::max(last, end);
      if (event.at("name") == "backward") ++backwards[process];
      if (event.at("name") == "backward") backwards_begun.insert(at(std::round(1000.0 * begin)));
      if (event.at("name") == "forward") forwards_ended.insert(at(std::round(1000.0 * end)));
      if (event.at("name") == "left" || event.at("name") == "right") ++reductions[process];
    }
    CHECK(names ==
          std::set<std::string>{"rank 0", "rank 1", "rank 0 cpu:0", "rank 0 cpu:1", "rank 1 cpu:2", "reductions"});
    CHECK(backwards == std::map<int, int>{{1, 2 * kSteps}, {2, kSteps}});
    CHECK(backwards_begun.size() == 3 * kSteps);
    CHECK(forwards_ended == backwards_begun);
    CHECK(reductions == std::map<int, int>{{1, 2 * kSteps}, {2, 2 * kSteps}});
    CHECK(first == 0.0);
    CHECK(last < 600e6);  // the clock that both have: microseconds since the first event, not since the machine's start
  }
}

TEST_CASE(
    "chrome_trace: forward begins where a step is opened, which is time 0, and none is drawn where that is unknown") {
  const auto at = [](int microsecond) { return SyncReport::Time{} + std::chrono::microseconds(microsecond); };
  SyncReport report{members_of(std::vector<Device>{cpu(0), cpu(1)}), {}, {SyncReport::Step{}}};
  report.steps[0].devices = {{at(100), at(130), at(150), at(160), at(160)}, {{}, at(140), at(150), at(160), at(160)}};
  CHECK(first_time(report) == std::chrono::microseconds(100));
  const std::string events = trace_events(report, 1, first_time(report));
  CAPTURE(events);
  CHECK(events.find(R"("name":"forward","ph":"X","pid":1,"tid":0,"ts":0.000,"dur":30.000,)") != std::string::npos);
  CHECK(events.find(R"("name":"backward","ph":"X","pid":1,"tid":0,"ts":30.000,"dur":20.000,)") != std::string::npos);
  CHECK(events.find(R"("name":"backward","ph":"X","pid":1,"tid":1,"ts":40.000,"dur":10.000,)") != std::string::npos);
  CHECK(events.find("forward") == events.rfind("forward"));
}

TEST_CASE("chrome_trace: the first process alone writes, and says where it cannot") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [&](std::size_t, GradientSync& sync) {
    train(sync);
    write_chrome_trace(sync, "/nonexistent/trace.json");
  });
  CHECK(errors[0].find("/nonexistent/trace.json") != std::string::npos);
  CHECK(errors[1] == "");
}

TEST_CASE("chrome_trace: a process that writes none is named") {
  ProcessThreads group({1, 1});
  const auto errors =
      group.run({.fail_after = std::chrono::milliseconds(300)}, [&](std::size_t rank, GradientSync& sync) {
        train(sync);
        if (rank == 0) write_chrome_trace(sync, "/nonexistent/trace.json");
        if (rank == 1) sync.barrier(sync.devices()[0], "something else");
      });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("for the clocks of a trace") != std::string::npos);
    CHECK(error.find("for something else") != std::string::npos);
  }
}

TEST_CASE("chrome_trace: clocks of two hosts are compared at the commits that both saw") {
  using std::chrono::nanoseconds;
  const std::vector<StepRelease> other{
      {1, 1, nanoseconds(100)}, {1, 2, nanoseconds(200)}, {1, 3, nanoseconds(300)}, {2, 1, nanoseconds(400)}};
  std::vector<StepRelease> own;
  for (const StepRelease& each : other) own.push_back({each.group, each.generation, each.at + nanoseconds(5000)});
  CHECK(clock_shift(own, other) == nanoseconds(5000));
  CHECK(clock_shift(other, own) == nanoseconds(-5000));
  own[1].at += nanoseconds(1'000'000);  // one that was heard of late moves nothing
  CHECK(clock_shift(own, other) == nanoseconds(5000));
  own.erase(own.begin(), own.begin() + 2);
  CHECK(clock_shift(own, other) == nanoseconds(5000));
  CHECK(clock_shift({}, other) == nanoseconds(0));
  CHECK(clock_shift(std::vector<StepRelease>{{3, 1, nanoseconds(7)}}, other) == nanoseconds(0));
}

TEST_SUITE_END();
