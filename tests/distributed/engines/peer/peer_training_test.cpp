// SPDX-License-Identifier: Apache-2.0
// The whole protocol of GradientSync on several devices of one GPU, without a GPU: gradients come from the test, their
// sums really happen, and what each device gets is to the bit what CPU devices get.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/peer/peer_machine.h>
#include <tutti/tests/distributed/engines/two_halves.h>
#include <tutti/tests/distributed/given_gradients.h>

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<float>;

void check_as_on_cpus(const SyncOptions& options, DType dtype = DType::f32) {
  for (const int count : {1, 2, 3}) {
    const GivenResults expected = given_results(test_devices(static_cast<std::size_t>(count)), options, dtype);
    for (const bool deferred : {false, true}) {
      CAPTURE(count);
      CAPTURE(deferred);
      const PeerMachine machine(count, 1, deferred);
      CHECK(given_results(machine.devices, options, dtype) == expected);
    }
  }
}

/// Four steps of every device; `update(d, replica)` makes what zeroes the gradients and steps.
template <class MakeOptimizer>
void train_linear_layers(const std::vector<Device>& devices, const SyncOptions& options, MakeOptimizer make_optimizer) {
  GradientSync sync(devices, options);
  Generator random(1);
  auto replicas = sync.replicate(Sequential(Linear(8, 16, random), ReLU(), Linear(16, 4, random)));
  run_devices(devices.size(), [&](std::size_t d) {
    const Device device = devices[d];
    const auto optimizer = make_optimizer(sync, device, replicas[d]);
    const Tensor input(Array::from(Values(6 * 8, 0.5F), {6, 8}, device));
    const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
    for (int i = 0; i < 4; ++i) {
      optimizer->zero_grad();
      auto step = sync.step(device, 6);
      step.backward(cross_entropy(replicas[d].forward(input), target));
      step.join();
      if (options.overlap != Overlap::in_backward) optimizer->step();
    }
    sync.flush(device);
    if (options.sharding == Sharding::none) sync.leave(device);
    synchronize(device);
  });
}

const auto kPlain = [](GradientSync& sync, Device device, Sequential& replica) {
  auto optimizer = std::make_unique<Sgd>(replica.parameters(), 0.1, SgdOptions{.momentum = 0.9});
  sync.attach(device, *optimizer);
  return optimizer;
};
const auto kSharded = [](GradientSync& sync, Device device, Sequential&) {
  return std::make_unique<ShardedOptimizer>(sync, device, [](std::vector<Tensor> pieces) {
    return std::make_unique<Sgd>(std::move(pieces), 0.1, SgdOptions{.momentum = 0.9});
  });
};

}  // namespace

TEST_CASE("peer training: averages are those of CPU devices, to the bit") {
  SUBCASE("weighted mean") { check_as_on_cpus({}); }
  SUBCASE("mean") { check_as_on_cpus({.reduction = GradientReduction::mean}); }
  SUBCASE("sum, one reduction for each parameter") {
    check_as_on_cpus({.reduction = GradientReduction::sum, .bucket_bytes = 0});
  }
  SUBCASE("of those that require it") { check_as_on_cpus({.absent = Absent::subset}); }
  SUBCASE("double-buffered") { check_as_on_cpus({.overlap = Overlap::double_buffered}); }
  SUBCASE("in bf16") { check_as_on_cpus({.wire = GradientWire::bf16}); }
  SUBCASE("in f16") { check_as_on_cpus({.wire = GradientWire::f16}); }
  SUBCASE("of bf16") { check_as_on_cpus({}, DType::bf16); }
  SUBCASE("of f16") { check_as_on_cpus({}, DType::f16); }
}

// To the bit: of three devices the halves are summed in the order of all.
TEST_CASE("peer training: this engine inside another one gives the same") {
  for (const SyncOptions& options : {SyncOptions{}, SyncOptions{.overlap = Overlap::double_buffered}}) {
    const GivenResults expected = given_results(test_devices(3), options);
    for (const int gpus : {1, 2})
      for (const bool deferred : {false, true}) {
        const PeerMachine machine(3, gpus, deferred);
        CHECK(given_results(machine.devices, options, DType::f32,
                            std::make_unique<TwoHalves>(machine.devices, machine.connect())) == expected);
      }
  }
}

TEST_CASE("peer training: two GPUs sum a share each, to the same bits") {
  const GivenResults expected = given_results(test_devices(4), {});
  PeerMachine machine(4, 2, true);
  CHECK(given_results(machine.devices, {}) == expected);
}

TEST_CASE("peer training: whole steps are in order, and leave nothing behind") {
  for (const bool deferred : {false, true}) {
    const PeerMachine machine(2, 1, deferred);
    SUBCASE("immediate") { train_linear_layers(machine.devices, {}, kPlain); }
    SUBCASE("updates in backward") { train_linear_layers(machine.devices, {.overlap = Overlap::in_backward}, kPlain); }
    SUBCASE("replicas compared") { train_linear_layers(machine.devices, {.consistency_every = 2}, kPlain); }
    SUBCASE("sharded optimizer") {
      train_linear_layers(machine.devices, {.sharding = Sharding::optimizer_state}, kSharded);
    }
    SUBCASE("sharded gradients") { train_linear_layers(machine.devices, {.sharding = Sharding::gradients}, kSharded); }
  }
}

namespace {

/// Whether there was such a call to fail.
bool is_right_after_failing(const std::string& call, std::size_t nth, const GivenResults& expected) {
  CAPTURE(call);
  CAPTURE(nth);
  PeerMachine machine(2, 1, true);
  // A device that fails between its steps leaves the other one waiting.
  GradientSync sync(machine.devices,
                    {.fail_after = std::chrono::milliseconds(1000), .warn = [](const std::string&) {}});
  auto replicas = sync.replicate(GivenModel{});
  const auto steps = [&](std::size_t d) { return take_given_steps(sync, replicas[d], machine.devices[d], d); };
  machine.machine.fail_call(call, nth, cudaErrorLaunchFailure);
  const auto errors = errors_of_devices(2, [&](std::size_t d) { (void)steps(d); });
  if (!machine.machine.failed()) return false;
  for (const std::string& error : errors) CHECK(!error.empty());
  GivenResults gradients(2);
  run_devices(2, [&](std::size_t d) {
    sync.rejoin(machine.devices[d], 0);
    gradients[d] = steps(d);
    sync.leave(machine.devices[d]);
    synchronize(machine.devices[d]);
  });
  CHECK(gradients == expected);
  return true;
}

}  // namespace

TEST_CASE("peer training: after a launch or a record that fails the group forms anew and is right again") {
  const GivenResults expected = given_results(test_devices(2), {});
  for (const std::string call : {"cudaLaunchKernel", "cudaEventRecord"}) {
    std::size_t nth = 1;
    while (nth < 40 && is_right_after_failing(call, nth, expected)) nth += 3;
    CHECK(nth > 10);
  }
}

TEST_CASE("peer training: the users' own collectives") {
  PeerMachine machine(3, 1, true);
  GradientSync sync(machine.devices);
  run_devices(3, [&](std::size_t d) {
    const Device device = machine.devices[d];
    const auto first = static_cast<float>(10 * d);
    const Tensor x(array_on(device, Values{first, first + 1, first + 2}));
    CHECK(sync.all_reduce(device, x).resolve().to_vector<float>() == Values{30, 33, 36});
    CHECK(sync.all_reduce(device, x, CollectiveOperation::max).resolve().to_vector<float>() == Values{20, 21, 22});
    CHECK(sync.reduce_scatter(device, x).resolve().to_vector<float>() == Values{30 + 3 * static_cast<float>(d)});
    CHECK(sync.all_gather(device, x).resolve().to_vector<float>() == Values{0, 1, 2, 10, 11, 12, 20, 21, 22});
    CHECK(sync.broadcast(device, x, cuda(1)).resolve().to_vector<float>() == Values{10, 11, 12});
    const auto place = static_cast<float>(d);
    CHECK(sync.all_to_all(device, x).resolve().to_vector<float>() == Values{place, 10 + place, 20 + place});
    sync.barrier(device);
    sync.leave(device);
    synchronize(device);
  });
}

TEST_CASE("peer training: compression is refused by name before anything is launched") {
  PeerMachine machine(2);
  GradientSync sync(machine.devices, {.compression = std::make_shared<PowerSgd>()});
  CHECK_THROWS_WITH_AS((void)sync.replicate(GivenModel{}), doctest::Contains("runs on CPU devices, not cuda:0"),
                       SyncError);
}
