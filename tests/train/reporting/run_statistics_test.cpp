// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/array.h>
#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/reporting/run_statistics.h>

using namespace tutti;
using std::chrono::milliseconds;

namespace {

double latest(const EventStorage& storage, const std::string& name) {
  CAPTURE(name);
  const auto scalar = storage.latest(name);
  REQUIRE(scalar.has_value());
  return scalar->value;
}

}  // namespace

TEST_CASE("Throughput: devices side by side add up") {
  Throughput one;
  CHECK(one.value() == 0.0);
  one.add(100, 2.0);
  one.add(100, 2.0);
  Throughput other;
  other.add(300, 5.0);
  one.merge(other);
  CHECK(one.value() == 100.0);
  Throughput found;
  found.load_text(one.to_text());
  CHECK(found.value() == 100.0);
  CHECK_THROWS_AS(found.load_text("1"), DataError);
  CHECK_THROWS_AS(found.add(1, -1.0), Error);
}

TEST_CASE("put_memory: what the pools say") {
  EventStorage storage(5);
  const std::vector<Device> devices = {test_device()};
  const Array held = Array::zeros({1 << 20}, DType::f32, test_device());
  put_memory(storage, devices);
  const std::string prefix = "memory/" + to_string(test_device()) + "/";
  CHECK(latest(storage, prefix + "in_use") >= 4 << 20);
  CHECK(latest(storage, prefix + "peak") >= latest(storage, prefix + "in_use"));
  CHECK(latest(storage, prefix + "reserved") >= latest(storage, prefix + "in_use"));
  CHECK(latest(storage, "memory") == latest(storage, prefix + "peak"));
  CHECK(storage.find("memory")->smoothing == EventStorage::Smoothing::none);
}

TEST_CASE("put_sync: seconds and shares of a report") {
  const auto at = [](int time) { return SyncReport::Time{} + milliseconds(time); };
  SyncReport report;
  report.devices = members_of(test_devices(2));
  report.parameters = {"a"};
  EventStorage storage;
  put_sync(storage, report);
  CHECK(storage.series().empty());
  SyncReport::Step step;
  step.devices = {{at(5), at(10), at(40), at(60), at(80)}, {at(6), at(15), at(60), at(60), at(110)}};
  step.reductions = {{{0}, {at(20), at(20)}, at(50), at(70), {}}};
  report.steps = {step};
  put_sync(storage, report);
  CHECK(latest(storage, "sync/step_time") == doctest::Approx(0.1));
  CHECK(latest(storage, "sync/skew") == doctest::Approx(0.02));
  CHECK(latest(storage, "sync/hidden") == doctest::Approx(0.5));
  CHECK(latest(storage, "sync/lateness/" + to_string(report.devices[1])) == doctest::Approx(0.02));
  CHECK(storage.find("sync/exposed") == nullptr);
}
