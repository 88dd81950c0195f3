// SPDX-License-Identifier: Apache-2.0
// The whole protocol of GradientSync on several devices of one GPU, without a GPU: gradients come from the test, their
// sums really happen, and what each device gets is to the bit what CPU devices get.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/peer/peer_machine.h>

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<float>;

struct Model : Module {
  Tensor small{Array::zeros({7}, DType::f32, cpu(0)), true};
  Tensor matrix{Array::zeros({13, 9}, DType::f32, cpu(0)), true};
  Tensor large{Array::zeros({3000}, DType::f32, cpu(0)), true};
  void visit(MemberVisitor& v) override {
    v.parameter("small", small);
    v.parameter("matrix", matrix);
    v.parameter("large", large);
  }
};

Values random_gradient(const Tensor& parameter, int step, std::size_t device) {
  auto state = static_cast<std::uint32_t>(parameter.array().size() * 131 + step * 17 + static_cast<int>(device) + 1);
  Values values;
  for (std::int64_t i = 0; i < parameter.array().size(); ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30F);
  }
  return values;
}

/// Its gradients are those of that step on that device, made by copies alone.
Tensor loss_of(const std::vector<Tensor>& parameters, int step, std::size_t d) {
  return custom_function(
      "given", parameters, [](std::span<const Array> in) { return Array::zeros({}, DType::f32, in[0].device()); },
      [=](std::span<const Array> inputs, const Array&, const Array&) {
        std::vector<Array> gradients;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          gradients.push_back(
              Array::from(random_gradient(parameters[i], step, d), inputs[i].shape(), inputs[i].device()));
        return gradients;
      });
}

/// In step 2 device 1 lacks a parameter, and in step 3 all but device 0 lack another one.
std::vector<Tensor> used(const Model& model, int step, std::size_t d) {
  std::vector<Tensor> parameters;
  parameters.reserve(3);
  parameters.push_back(model.small);
  if (!(step == 2 && d == 1)) parameters.push_back(model.matrix);
  if (!(step == 3 && d > 0)) parameters.push_back(model.large);
  return parameters;
}

constexpr int kSteps = 5;
using Gradients = std::vector<std::vector<Values>>;  // by device: what it got, step by step

std::vector<Values> take_steps(GradientSync& sync, Model& model, Device device, std::size_t d) {
  std::vector<Values> got;
  for (int i = 0; i < kSteps; ++i) {
    model.zero_grad();
    auto step = sync.step(device, i == 4 && d == 0 ? 0.0 : 1.0 + 2.0 * static_cast<double>(d));
    step.backward(loss_of(used(model, i, d), i, d));
    step.join();
    for (const Tensor& parameter : {model.small, model.matrix, model.large})
      got.push_back(parameter.grad().defined() ? parameter.grad().to_vector<float>() : Values{});
  }
  return got;
}

Gradients gradients_on(const std::vector<Device>& devices, const SyncOptions& options) {
  GradientSync sync(devices, options);
  auto replicas = sync.replicate(Model{});
  Gradients gradients(devices.size());
  run_devices(devices.size(), [&](std::size_t d) {
    gradients[d] = take_steps(sync, replicas[d], devices[d], d);
    sync.flush(devices[d]);
    sync.leave(devices[d]);
    synchronize(devices[d]);
  });
  return gradients;
}

void check_as_on_cpus(const SyncOptions& options) {
  for (const int count : {1, 2, 3}) {
    const Gradients expected = gradients_on(test_devices(static_cast<std::size_t>(count)), options);
    for (const bool deferred : {false, true}) {
      CAPTURE(count);
      CAPTURE(deferred);
      const PeerMachine machine(count, 1, deferred);
      CHECK(gradients_on(machine.devices, options) == expected);
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
}

TEST_CASE("peer training: two GPUs sum a share each, to the same bits") {
  const Gradients expected = gradients_on(test_devices(4), {});
  PeerMachine machine(4, 2, true);
  CHECK(gradients_on(machine.devices, {}) == expected);
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
bool is_right_after_failing(const std::string& call, std::size_t nth, const Gradients& expected) {
  CAPTURE(call);
  CAPTURE(nth);
  PeerMachine machine(2, 1, true);
  // A device that fails between its steps leaves the other one waiting.
  GradientSync sync(machine.devices,
                    {.fail_after = std::chrono::milliseconds(1000), .warn = [](const std::string&) {}});
  auto replicas = sync.replicate(Model{});
  const auto steps = [&](std::size_t d) { return take_steps(sync, replicas[d], machine.devices[d], d); };
  machine.machine.fail_call(call, nth, cudaErrorLaunchFailure);
  const auto errors = errors_of_devices(2, [&](std::size_t d) { (void)steps(d); });
  if (!machine.machine.failed()) return false;
  for (const std::string& error : errors) CHECK(!error.empty());
  Gradients gradients(2);
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
  const Gradients expected = gradients_on(test_devices(2), {});
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
  CHECK_THROWS_WITH_AS((void)sync.replicate(Model{}), doctest::Contains("runs on CPU devices, not cuda:0"), SyncError);
}
