// SPDX-License-Identifier: Apache-2.0
// N devices with batch B are one device with batch N B, and a run is bitwise itself when repeated.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/compression/relative_distance.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kSteps = 50;
constexpr std::int64_t kBatch = 6;  // per device

struct Network : Module {
  Network(Generator random, DType dtype)
      : convolution(1, 4, 3, random, {.padding = 1, .dtype = dtype}),
        hidden(4 * 4 * 4, 16, random, {.dtype = dtype}),
        output(16, 5, random, {.dtype = dtype}) {}
  Tensor forward(const Tensor& x) const {
    const Tensor features = max_pool2d(relu(convolution.forward(x)));
    return output.forward(tanh(hidden.forward(flatten(features, 1))));
  }
  void visit(MemberVisitor& v) override {
    v.module("convolution", convolution);
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Conv2d convolution;
  Linear hidden;
  Linear output;
};

struct Batch {
  Array images;
  Array labels;
};

Batch global_batch(int step, std::int64_t examples, DType dtype) {
  Generator random(42, static_cast<std::uint64_t>(step));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < examples; ++i) labels.push_back(static_cast<std::int64_t>(random.below(5)));
  return {random.normal({examples, 1, 8, 8}, dtype, test_device()), Array::from(labels, {examples}, test_device())};
}

std::unique_ptr<Optimizer> optimizer_for(Module& model, bool adam) {
  if (adam) return std::make_unique<AdamW>(model.parameters(), 0.01);
  return std::make_unique<Sgd>(model.parameters(), 0.1, SgdOptions{.momentum = 0.9});
}

std::vector<double> flat_parameters(Module& model) {
  std::vector<double> values;
  for (const Tensor& parameter : model.parameters())
    for (const double value : parameter.array().cast(DType::f64).to_vector<double>()) values.push_back(value);
  return values;
}

std::vector<double> train_one_device(DType dtype, std::int64_t examples, bool adam) {
  Network model(Generator(7), dtype);
  model.detach_members_to(test_device());
  const auto optimizer = optimizer_for(model, adam);
  for (int i = 0; i < kSteps; ++i) {
    const Batch batch = global_batch(i, examples, dtype);
    optimizer->zero_grad();
    backward(cross_entropy(model.forward(Tensor(batch.images)), Tensor(batch.labels)));
    optimizer->step();
  }
  return flat_parameters(model);
}

void set_threads(std::size_t devices, int threads) {
  if (!tests_run_on_cpu()) return;
  for (std::size_t d = 0; d < devices; ++d) set_cpu_threads(test_device(d), threads);
}

// `uneven`: the last device has one example less and the first one more.
std::vector<double> train_devices(std::size_t count, DType dtype, bool adam, bool uneven = false, int threads = 1) {
  set_threads(count, threads);
  GradientSync sync(test_devices(count));
  auto replicas = sync.replicate(Network(Generator(7), dtype));
  run_devices(count, [&](std::size_t d) {
    const auto optimizer = optimizer_for(replicas[d], adam);
    for (int i = 0; i < kSteps; ++i) {
      const auto examples = static_cast<std::int64_t>(count) * kBatch;
      const Batch batch = global_batch(i, examples, dtype);
      const std::int64_t begin = static_cast<std::int64_t>(d) * kBatch + (uneven && d > 0 ? 1 : 0);
      const std::int64_t end = (static_cast<std::int64_t>(d) + 1) * kBatch + (uneven && d + 1 < count ? 1 : 0);
      optimizer->zero_grad();
      auto step = sync.step(test_device(d), static_cast<double>(end - begin));
      const Tensor images(batch.images.slice(0, begin, end).to(test_device(d)));
      const Tensor labels(batch.labels.slice(0, begin, end).to(test_device(d)));
      step.backward(cross_entropy(replicas[d].forward(images), labels));
      optimizer->step();
    }
  });
  const auto first = flat_parameters(replicas[0]);
  for (std::size_t d = 1; d < count; ++d) CHECK(flat_parameters(replicas[d]) == first);
  set_threads(count, 1);
  return first;
}

}  // namespace

TEST_CASE("equivalence: N devices with batch B equal one device with N B after 50 steps, f64") {
  for (const std::size_t count : {2, 4})
    for (const bool adam : {false, true})
      for (const bool uneven : {false, true}) {
        const auto one = train_one_device(DType::f64, static_cast<std::int64_t>(count) * kBatch, adam);
        CHECK(relative_distance(train_devices(count, DType::f64, adam, uneven), one) < 1e-10);
      }
}

TEST_CASE("equivalence: N devices with batch B equal one device with N B after 50 steps, f32") {
  for (const std::size_t count : {2, 4}) {
    const auto one = train_one_device(DType::f32, static_cast<std::int64_t>(count) * kBatch, false);
    CHECK(relative_distance(train_devices(count, DType::f32, false), one) < 1e-4);
  }
}

TEST_CASE("equivalence: a run is bitwise itself when repeated, with any number of threads") {
  const auto first = train_devices(2, DType::f32, false, true, 1);
  CHECK(train_devices(2, DType::f32, false, true, 1) == first);
  CHECK(train_devices(2, DType::f32, false, true, 3) == first);
}
