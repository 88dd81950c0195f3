// SPDX-License-Identifier: Apache-2.0
// Buffers of replicas in groups of several processes, which here are threads of one.
#include <tutti/autodiff/operations.h>
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

Device device(std::size_t number) { return cpu(static_cast<std::uint16_t>(number)); }

/// Floating running statistics, and a count of batches.
struct Model : Module {
  explicit Model(Generator random) : hidden(6, 8, random), norm(8), output(8, 3, random) {}
  Tensor forward(const Tensor& x) const {
    Array count = batches.array();
    count.copy_from((batches + Tensor(1)).array());
    return output.forward(tanh(norm.forward(hidden.forward(x))));
  }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("norm", norm);
    v.module("output", output);
    v.buffer("batches", batches);
  }
  Linear hidden;
  BatchNorm norm;
  Linear output;
  Tensor batches{Array::zeros({}, DType::i64, cpu(0))};
};

/// Steps that a device takes, and the examples in each.
struct Plan {
  std::function<int(std::size_t number)> steps = [](std::size_t) { return 6; };
  std::function<std::int64_t(std::size_t number, int step)> examples = [](std::size_t, int) { return 4; };
  bool norms_of_all = false;
};

using ByDevice = std::vector<std::vector<double>>;

// Parameters and buffers of the device after each of its steps.
std::vector<double> train(GradientSync& sync, Model& model, std::size_t number, const Plan& plan) {
  std::vector<double> history;
  Sgd optimizer(model.parameters(), 0.1);
  for (int i = 0; i < plan.steps(number); ++i) {
    const std::int64_t examples = plan.examples(number, i);
    Generator random(13, static_cast<std::uint64_t>(i) * kDevices + number);
    const Tensor x(random.normal({std::max<std::int64_t>(examples, 2), 6}, DType::f32, device(number)));
    optimizer.zero_grad();
    auto step = sync.step(device(number), static_cast<double>(examples));
    const double counts = examples > 0 ? 1.0 : 0.0;
    step.backward(mean(square(model.forward(x))) * counts);
    optimizer.step();
    for (const Tensor& tensor : model.parameters())
      for (const float value : tensor.to_vector<float>()) history.push_back(value);
    for (const Tensor& tensor : {model.norm.running_mean, model.norm.running_var})
      for (const float value : tensor.to_vector<float>()) history.push_back(value);
    history.push_back(static_cast<double>(model.batches.item<std::int64_t>()));
  }
  sync.leave(device(number));
  return history;
}

ByDevice alone(const SyncOptions& options, const Plan& plan) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options);
  Model model(Generator(5));
  if (plan.norms_of_all) synchronize_batch_norms(model, sync);
  auto replicas = sync.replicate(model);
  ByDevice histories(kDevices);
  run_devices(kDevices, [&](std::size_t number) { histories[number] = train(sync, replicas[number], number, plan); });
  return histories;
}

ByDevice split_up(const std::vector<std::uint32_t>& split, const SyncOptions& options, const Plan& plan) {
  ProcessThreads group(split);
  ByDevice histories(kDevices);
  const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
    Model model(Generator(5));
    if (plan.norms_of_all) synchronize_batch_norms(model, sync);
    auto replicas = sync.replicate(model);
    run_devices(split[rank], [&](std::size_t place) {
      const std::size_t number = group.first_of(rank) + place;
      histories[number] = train(sync, replicas[place], number, plan);
    });
  });
  for (const std::string& error : errors) CHECK(error == "");
  return histories;
}

void check_all_splits(const SyncOptions& options, const Plan& plan) {
  const ByDevice expected = alone(options, plan);
  for (const auto& split : kSplits) CHECK(split_up(split, options, plan) == expected);
}

}  // namespace

TEST_CASE("several_processes, buffers: main and mean keep them equal as in one process, in any split") {
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean}) {
    const SyncOptions options{.buffers = policy};
    check_all_splits(options, {});
    CHECK(alone(options, {})[3] == alone(options, {})[0]);
  }
}

TEST_CASE("several_processes, buffers: devices without examples do not count, and those that left have none") {
  Plan plan;
  plan.examples = [](std::size_t number, int step) {
    return static_cast<std::int64_t>((number + static_cast<std::size_t>(step)) % 3) * 2;
  };
  plan.steps = [](std::size_t number) { return 7 - static_cast<int>(number) * 2; };  // all of the last rank leave first
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean})
    check_all_splits({.buffers = policy}, plan);
  plan.steps = [](std::size_t number) { return 1 + static_cast<int>(number) * 2; };  // those of the first rank
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean})
    check_all_splits({.buffers = policy}, plan);
}

TEST_CASE("several_processes, buffers: batch norms by the whole group's batch, in any split") {
  Plan plan{.norms_of_all = true};
  plan.examples = [](std::size_t number, int step) {
    return static_cast<std::int64_t>((number + static_cast<std::size_t>(step)) % 3) + 2;
  };
  check_all_splits({.buffers = BufferPolicy::synchronised}, plan);
}

TEST_CASE("several_processes, buffers: other buffers than the others' are an error on every process") {
  struct Counting : Module {
    Counting(std::int64_t size, Generator random)
        : layer(2, 2, random), buffer(Array::zeros({size}, DType::f32, cpu(0))) {}
    void visit(MemberVisitor& v) override {
      v.module("layer", layer);
      v.buffer("buffer", buffer);
    }
    Linear layer;
    Tensor buffer;
  };
  ProcessThreads group({1, 1});
  const auto errors = group.run({.buffers = BufferPolicy::main}, [](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Counting(rank == 0 ? 2 : 3, Generator(1)));
    auto step = sync.step(device(rank));
    step.backward(mean(replicas[0].layer.forward(Tensor(Array::full({2, 2}, 1.0, DType::f32, device(rank))))));
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("replicas or options are not those of rank") != std::string::npos);
  }
}

TEST_SUITE_END();
