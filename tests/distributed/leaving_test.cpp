// SPDX-License-Identifier: Apache-2.0
// Devices that leave: when they may, what it does to the others, and how those that follow stop.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

SyncOptions impatient(SyncOptions options = {}) {
  options.warn_after = milliseconds(1000);
  options.fail_after = milliseconds(2000);
  if (!options.warn) options.warn = [](const std::string&) {};
  return options;
}

struct Pair {
  explicit Pair(SyncOptions options = {})
      : sync(cpu_devices(2), impatient(std::move(options))), replicas(sync.replicate(TwoBranches{})) {}
  /// A step of the device, the only one that has not left.
  void step(std::size_t d) {
    replicas[d].zero_grad();
    auto step = sync.step(cpu(d));
    step.backward(use(replicas[d].left, 1) + use(replicas[d].right, 2));
  }
  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

std::exception_ptr disk_full() { return std::make_exception_ptr(std::runtime_error("disk full")); }

struct Large : Module {
  Tensor weight{Array::full({100'000}, 1.0, DType::f64, cpu(0)), true};
  void visit(MemberVisitor& v) override { v.parameter("weight", weight); }
};

}  // namespace

TEST_CASE("leaving: after forming the next group was refused, which the others then form without it") {
  Pair pair;
  Sgd optimizer(pair.replicas[0].parameters(), 0.1);
  pair.sync.attach(cpu(0), optimizer);  // and none on the other
  pair.sync.fail(cpu(1), disk_full());
  const GradientSync::Rejoining all[] = {{cpu(0), 1}, {cpu(1), 0}};
  CHECK_THROWS_WITH_AS(pair.sync.rejoin_all(all), doctest::Contains("attached optimizers"), SyncError);
  pair.sync.leave(cpu(1));
  CHECK_NOTHROW(pair.sync.rejoin(cpu(0), 1));
  CHECK(pair.sync.group_number() == 3);
  CHECK_NOTHROW(pair.step(0));
}
