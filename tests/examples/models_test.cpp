// SPDX-License-Identifier: Apache-2.0
// Each model of the examples learns a tiny batch by heart, and two devices learn what one does.
#include <tutti/autodiff/backward.h>
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/examples/digits_network.h>
#include <tutti/examples/language_models.h>
#include <tutti/examples/residual_network.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/relative_distance.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t class_axis;

  Batch part(std::int64_t begin, std::int64_t end, Device device) const {
    return {inputs.slice(0, begin, end).to(device), targets.slice(0, begin, end).to(device), class_axis};
  }
};

Tensor labels(const Shape& shape, std::uint64_t classes) {
  Generator random(7);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<std::int64_t>(random.below(classes)));
  return Tensor(Array::from(values, shape, cpu()));
}

Batch images() {
  Generator random(3);
  return {Tensor(random.uniform({8, 1, 8, 8}, DType::f32, cpu())), labels({8}, 10), 1};
}

Batch words() {
  const Tensor first = Tensor(Array::arange(4, DType::i64, cpu())).reshape({4, 1});  // which tells what follows
  const Tensor text = concatenate({first, labels({4, 12}, 11)}, 1);
  return {text.slice(1, 0, 12), text.slice(1, 1, 13), -1};
}

text::ModelOptions small() { return {.vocabulary = 11, .context = 12, .features = 32, .heads = 2, .layers = 2}; }

template <class Model> Tensor loss_of(const Model& model, const Batch& batch) {
  return cross_entropy(model.forward(batch.inputs), batch.targets, {.class_axis = batch.class_axis});
}

template <class Model> void learns_by_heart(Model model, const Batch& batch, int steps) {
  AdamW optimizer(model.parameters(), 0.01, {.weight_decay = 0});
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor value = loss_of(model, batch);
    loss = value.template item<double>();
    backward(value);
    optimizer.step();
  }
  CHECK(loss < 0.01);
}

/// Of parameters and buffers.
std::vector<double> values_of(Module& model) {
  std::vector<double> values;
  for (const auto& members : {model.named_parameters(), model.named_buffers()})
    for (const auto& [name, member] : members)
      for (const double value : member.cast(DType::f64).to_vector<double>()) values.push_back(value);
  return values;
}

/// Two devices with half of the batch each, beside one with all of it. In f64, where no activation's input is rounded
/// to the other side of 0.
template <class Model> void two_devices_are_one(const Model& made, Batch batch) {
  constexpr int kSteps = 5;
  Model model = clone(made, cpu());
  model.detach_members_as(DType::f64);
  if (is_floating(batch.inputs.dtype())) batch.inputs = batch.inputs.cast(DType::f64);
  Model alone = clone(model, cpu());
  Sgd optimizer(alone.parameters(), 0.1);
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    backward(loss_of(alone, batch));
    optimizer.step();
  }
  const std::vector<Device> devices{cpu(0), cpu(1)};
  GradientSync sync(devices);
  Model shared = clone(model, cpu());
  synchronize_batch_norms(shared, sync);  // or each device would normalise by its half
  auto replicas = sync.replicate(shared);
  const std::int64_t half = batch.inputs.length(0) / 2;
  testing::run_devices(2, [&](std::size_t d) {
    const auto begin = static_cast<std::int64_t>(d) * half;
    const Batch own = batch.part(begin, begin + half, devices[d]);
    Sgd steps(replicas[d].parameters(), 0.1);
    for (int i = 0; i < kSteps; ++i) {
      steps.zero_grad();
      auto step = sync.step(devices[d], static_cast<double>(half));
      step.backward(loss_of(replicas[d], own));
      steps.step();
    }
    sync.leave(devices[d]);
  });
  CHECK(relative_distance(values_of(replicas[0]), values_of(alone)) < 1e-12);
  CHECK(values_of(replicas[1]) == values_of(replicas[0]));
}

}  // namespace

TEST_CASE("examples: each model learns a tiny batch by heart") {
  Generator random(5);
  learns_by_heart(digits::Network(random), images(), 100);
  learns_by_heart(digits::ResidualNetwork(random), images(), 100);
  learns_by_heart(text::Gpt(small(), random), words(), 150);
  learns_by_heart(text::Lstm(small(), random), words(), 300);
}

TEST_CASE("examples: two devices with half of a batch each learn what one with all of it does") {
  Generator random(5);
  two_devices_are_one(digits::Network(random), images());
  two_devices_are_one(digits::ResidualNetwork(random), images());
  two_devices_are_one(text::Gpt(small(), random), words());
  two_devices_are_one(text::Lstm(small(), random), words());
}
