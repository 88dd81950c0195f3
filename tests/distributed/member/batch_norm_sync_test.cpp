// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over the devices of a group equals one device with the concatenated batch.
#include <tutti/distributed/batch_norm_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/random.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<double>;

constexpr std::array<std::int64_t, 3> kParts{3, 1, 4};  // examples of each device, uneven
constexpr std::size_t kDevices = kParts.size();
constexpr std::int64_t kExamples = 8;
constexpr int kSteps = 3;

struct Model : Module {
  Conv2d convolution;
  BatchNorm images;
  Linear hidden;
  BatchNorm vectors;
  explicit Model(Generator& random)
      : convolution(2, 3, 2, random, {.dtype = DType::f64, .device = test_device()}),
        images(3, {.dtype = DType::f64, .device = test_device()}),
        hidden(12, 4, random, {.dtype = DType::f64, .device = test_device()}),
        vectors(4, {.momentum = 0.3, .dtype = DType::f64, .device = test_device()}) {}
  Tensor forward(const Tensor& x) const {
    return vectors.forward(hidden.forward(flatten(tanh(images.forward(convolution.forward(x))), 1)));
  }
  void visit(MemberVisitor& v) override {
    v.module("convolution", convolution);
    v.module("images", images);
    v.module("hidden", hidden);
    v.module("vectors", vectors);
  }
};

Model new_model() {
  Generator random(1);
  return Model(random);
}

Tensor batch(int step) {
  Generator random(7, static_cast<std::uint64_t>(step));
  return Tensor(random.normal({kExamples, 2, 3, 3}, DType::f64, test_device()));
}

Tensor part_of(const Tensor& x, std::size_t d) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < d; ++i) begin += kParts[i];
  return Tensor(slice(x, 0, begin, begin + kParts[d]).array().to(test_device(d)));
}

// Not the same for all examples, whose gradients would else cancel in a norm.
Tensor loss_of(const Tensor& y) { return mean(square(y - 0.5) * sigmoid(y * 3.0)); }

Values flat(const std::vector<Tensor>& tensors) {
  Values values;
  for (const Tensor& tensor : tensors)
    for (const double value : tensor.to_vector<double>()) values.push_back(value);
  return values;
}

std::vector<Tensor> buffers(Module& model) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : model.named_buffers()) tensors.push_back(tensor);
  return tensors;
}

void check_near(const Values& values, const Values& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-10).scale(1));
  }
}

}  // namespace

TEST_CASE("synchronised batch norm: training on three devices equals one device with the concatenated batch") {
  Model one = new_model();
  Sgd optimizer(one.parameters(), 0.5);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    backward(loss_of(one.forward(batch(step))));
    optimizer.step();
  }

  GradientSync sync(test_devices(kDevices), {.buffers = BufferPolicy::synchronised});
  Model model = new_model();
  synchronize_batch_norms(model, sync);
  auto replicas = sync.replicate(model);
  run_devices(kDevices, [&](std::size_t d) {
    Sgd local(replicas[d].parameters(), 0.5);
    for (int i = 0; i < kSteps; ++i) {
      local.zero_grad();
      auto step = sync.step(test_device(d), static_cast<double>(kParts[d]));
      step.backward(loss_of(replicas[d].forward(part_of(batch(i), d))));
      local.step();
    }
  });
  for (Model& replica : replicas) {
    check_near(flat(replica.parameters()), flat(one.parameters()));
    check_near(flat(buffers(replica)), flat(buffers(one)));
    CHECK(flat(buffers(replica)) == flat(buffers(replicas[0])));  // to the bit
  }
}

TEST_CASE("synchronised batch norm: gradients of inputs, first and second, pass through the others' statistics") {
  const auto penalty = [](const Tensor& gradient) { return sum(gradient * gradient * gradient) * 100.0; };
  const auto layer_on = [](Device device) { return BatchNorm(2, {.dtype = DType::f64, .device = device}); };
  const Tensor x(batch(0).array(), true);
  const BatchNorm one = layer_on(test_device());
  const auto first = grad(sum(tanh(one.forward(x) * 2.0)), {&x, 1}, {.create_graph = true});
  const Tensor second = grad(penalty(first[0]), {&x, 1})[0];

  GradientSync sync(test_devices(kDevices));
  run_devices(kDevices, [&](std::size_t d) {
    BatchNorm layer = layer_on(test_device(d));
    layer.gather = gather_statistics(sync);
    const Tensor part(part_of(x, d).array(), true);
    const auto local = grad(sum(tanh(layer.forward(part) * 2.0)), {&part, 1}, {.create_graph = true});
    check_near(local[0].to_vector<double>(), part_of(first[0], d).to_vector<double>());
    check_near(grad(penalty(local[0]), {&part, 1})[0].to_vector<double>(), part_of(second, d).to_vector<double>());
  });
}

TEST_CASE("synchronised batch norm: a device without examples takes part") {
  const Tensor x = batch(0);
  BatchNorm one(2, {.dtype = DType::f64, .device = test_device()});
  const Tensor expected = one.forward(x);
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    BatchNorm layer(2, {.dtype = DType::f64, .device = test_device(d)});
    layer.gather = gather_statistics(sync);
    const Tensor mine(slice(x, 0, 0, d == 0 ? kExamples : 0).array().to(test_device(d)), true);
    const Tensor y = layer.forward(mine);
    if (d == 0) check_near(y.to_vector<double>(), expected.to_vector<double>());
    check_near(layer.running_var.to_vector<double>(), one.running_var.to_vector<double>());
    backward(sum(square(y)));
    CHECK(mine.grad().shape() == mine.shape());
  });
}

namespace {

using Sizes = std::vector<std::vector<std::int64_t>>;  // examples, by step and device

SyncOptions of_equal_statistics() {
  SyncOptions options;
  options.buffers = BufferPolicy::synchronised;
  options.warn_after = std::chrono::milliseconds(5'000);
  options.fail_after = std::chrono::milliseconds(10'000);
  options.warn = [](const std::string&) {};
  return options;
}

Tensor rows_of(const Tensor& x, const std::vector<std::int64_t>& sizes, std::size_t d) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < d; ++i) begin += sizes[i];
  return Tensor(slice(x, 0, begin, begin + sizes[d]).array().to(test_device(d)));
}

std::int64_t total(const std::vector<std::int64_t>& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

/// What steps of these sizes make of the model on one device that has all examples of a step.
Model trained_on_one(const Sizes& steps) {
  Model one = new_model();
  Sgd optimizer(one.parameters(), 0.5);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (total(steps[i]) == 0) continue;
    optimizer.zero_grad();
    backward(loss_of(one.forward(slice(batch(static_cast<int>(i)), 0, 0, total(steps[i])))));
    optimizer.step();
  }
  return one;
}

}  // namespace

TEST_CASE("synchronised batch norm: steps in which some devices have no examples equal one device with all") {
  const Sizes cases[] = {
      {{0, 8}, {4, 4}, {4, 4}},                      // in the first step
      {{4, 4}, {3, 5}, {8, 0}},                      // in the last
      {{0, 3, 5}, {2, 0, 2}, {6, 0, 0}, {1, 2, 1}},  // several, now here, now there
      {{4, 4}, {0, 0}, {5, 3}},                      // nobody has any
  };
  for (const Sizes& steps : cases) {
    CAPTURE(&steps - cases);
    const std::size_t devices = steps.front().size();
    GradientSync sync(test_devices(devices), of_equal_statistics());
    Model model = new_model();
    synchronize_batch_norms(model, sync);
    auto replicas = sync.replicate(model);
    run_devices(devices, [&](std::size_t d) {
      Sgd local(replicas[d].parameters(), 0.5);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        local.zero_grad();
        auto step = sync.step(test_device(d), static_cast<double>(steps[i][d]));
        const Tensor y = replicas[d].forward(rows_of(batch(static_cast<int>(i)), steps[i], d));
        step.backward(steps[i][d] > 0 ? loss_of(y) : sum(y) * std::numeric_limits<double>::quiet_NaN());
        if (!step.skipped()) local.step();
      }
    });
    Model one = trained_on_one(steps);
    for (Model& replica : replicas) {
      check_near(flat(replica.parameters()), flat(one.parameters()));
      check_near(flat(buffers(replica)), flat(buffers(one)));
      CHECK(flat(replica.parameters()) == flat(replicas[0].parameters()));
    }
  }
}

TEST_CASE("synchronised batch norm: empty micro-batches take part while gradients accumulate") {
  const Sizes parts{{3, 0}, {2, 3}};  // of one step
  GradientSync sync(test_devices(2), of_equal_statistics());
  Model model = new_model();
  synchronize_batch_norms(model, sync);
  auto replicas = sync.replicate(model);
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d), static_cast<double>(parts[1][d]));
    const auto loss = [&](int i) {
      const Tensor y = replicas[d].forward(rows_of(batch(i), parts[static_cast<std::size_t>(i)], d));
      return y.size() > 0 ? loss_of(y) : sum(y);
    };
    {
      auto local = step.no_sync(static_cast<double>(parts[0][d]));
      backward(loss(0));
    }
    step.backward(loss(1));
  });
  Model one = new_model();
  backward(loss_of(one.forward(slice(batch(0), 0, 0, 3))) * (3.0 / 8) +
           loss_of(one.forward(slice(batch(1), 0, 0, 5))) * (5.0 / 8));
  for (Model& replica : replicas)
    for (std::size_t i = 0; i < replica.parameters().size(); ++i)
      check_near(replica.parameters()[i].grad().to_vector<double>(), one.parameters()[i].grad().to_vector<double>());
}

// Its examples change the others' statistics, and so their losses: that gradient is theirs and counts.
TEST_CASE("synchronised batch norm: examples of weight 0 get the gradients of the others' losses") {
  const std::vector<std::int64_t> sizes{5, 3};
  GradientSync sync(test_devices(2), of_equal_statistics());
  Model model = new_model();
  synchronize_batch_norms(model, sync);
  auto replicas = sync.replicate(model);
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d), d == 0 ? 5 : 0);
    step.backward(loss_of(replicas[d].forward(rows_of(batch(0), sizes, d))));
  });
  Model one = new_model();
  backward(loss_of(slice(one.forward(batch(0)), 0, 0, 5)));
  for (Model& replica : replicas)
    for (std::size_t i = 0; i < replica.parameters().size(); ++i)
      check_near(replica.parameters()[i].grad().to_vector<double>(), one.parameters()[i].grad().to_vector<double>());
}
