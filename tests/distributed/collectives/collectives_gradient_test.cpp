// SPDX-License-Identifier: Apache-2.0
// Gradients through collectives, first and second: N devices equal one device that does it all.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace tutti;
using namespace tutti::testing;

namespace {

Device device(std::size_t d) { return test_device(d); }

// --- one collective at a time, beside the same formula on one device

using Inputs = std::vector<Tensor>;
using OnOneDevice = std::function<std::vector<Tensor>(const Inputs&)>;
using OnDevices = std::function<PendingTensor(GradientSync&, std::size_t d, const Tensor&)>;

Tensor input(std::size_t d, const Shape& shape, std::size_t lives_on) {
  Generator random(5, d);
  return Tensor(random.normal(shape, DType::f64, test_device()).to(device(lives_on)), true);
}

// Nonlinear in the output and different on each device, so that first and second derivatives say something.
Tensor loss_of(const Tensor& output, std::size_t d) {
  const double factor = static_cast<double>(d) + 1;
  return sum(output * output * output * factor) + sum(tanh(output));
}

Tensor penalty_of(const Tensor& gradient) { return sum(gradient * gradient * gradient); }

void check_near(const Values& values, const Values& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

struct Derivatives {
  Values first;
  Values second;  // of the penalty of the first
};

std::vector<Derivatives> on_one_device(std::size_t count, const std::vector<Shape>& shapes,
                                       const OnOneDevice& formula) {
  Inputs inputs;
  for (std::size_t d = 0; d < count; ++d) inputs.push_back(input(d, shapes[d], 0));
  const auto outputs = formula(inputs);
  Tensor loss = loss_of(outputs[0], 0);
  for (std::size_t d = 1; d < count; ++d) loss = loss + loss_of(outputs[d], d);
  const auto first = grad(loss, inputs, {.create_graph = true});
  Tensor penalty = penalty_of(first[0]);
  for (std::size_t d = 1; d < count; ++d) penalty = penalty + penalty_of(first[d]);
  const auto second = grad(penalty, inputs);
  std::vector<Derivatives> result;
  for (std::size_t d = 0; d < count; ++d)
    result.push_back({first[d].to_vector<double>(), second[d].to_vector<double>()});
  return result;
}

void check_derivatives(std::size_t count, const std::vector<Shape>& shapes, const OnOneDevice& formula,
                       const OnDevices& collective) {
  const auto expected = on_one_device(count, shapes, formula);
  GradientSync sync(test_devices(count));
  run_devices(count, [&](std::size_t d) {
    const Tensor x = input(d, shapes[d], d);
    const Tensor loss = loss_of(collective(sync, d, x).resolve(), d);
    const auto first = grad(loss, {&x, 1}, {.create_graph = true});
    check_near(first[0].to_vector<double>(), expected[d].first);
    check_near(grad(penalty_of(first[0]), {&x, 1})[0].to_vector<double>(), expected[d].second);
  });
}

Tensor sum_of(const Inputs& inputs) {
  Tensor total = inputs[0];
  for (std::size_t d = 1; d < inputs.size(); ++d) total = total + inputs[d];
  return total;
}

std::int64_t signed_size(std::size_t size) { return static_cast<std::int64_t>(size); }

}  // namespace

TEST_CASE("collectives, gradients: all_reduce") {
  for (const std::size_t count : {2, 3, 4})
    for (const auto operation : {CollectiveOperation::sum, CollectiveOperation::mean})
      check_derivatives(
          count, std::vector<Shape>(count, {2, 3}),
          [&](const Inputs& inputs) {
            const double share = operation == CollectiveOperation::mean ? 1.0 / static_cast<double>(count) : 1.0;
            return std::vector<Tensor>(count, sum_of(inputs) * share);
          },
          [&](GradientSync& sync, std::size_t d, const Tensor& x) { return sync.all_reduce(device(d), x, operation); });
}

TEST_CASE("collectives, gradients: reduce_scatter") {
  for (const std::size_t count : {2, 3, 4})
    for (const auto operation : {CollectiveOperation::sum, CollectiveOperation::mean}) {
      std::vector<std::int64_t> parts(count, 1);
      parts.back() = 3;
      check_derivatives(
          count, std::vector<Shape>(count, {signed_size(count) + 2, 2}),
          [&](const Inputs& inputs) {
            const double share = operation == CollectiveOperation::mean ? 1.0 / static_cast<double>(count) : 1.0;
            std::vector<Tensor> outputs;
            for (std::size_t d = 0; d < count; ++d)
              outputs.push_back(slice(sum_of(inputs) * share, 0, signed_size(d), signed_size(d) + parts[d]));
            return outputs;
          },
          [&](GradientSync& sync, std::size_t d, const Tensor& x) {
            return sync.reduce_scatter(device(d), x, operation, parts);
          });
    }
}

TEST_CASE("collectives, gradients: all_gather of uneven lengths") {
  for (const std::size_t count : {2, 3, 4}) {
    std::vector<Shape> shapes;
    for (std::size_t d = 0; d < count; ++d) shapes.push_back({signed_size(d) + 1, 2});
    check_derivatives(
        count, shapes, [&](const Inputs& inputs) { return std::vector<Tensor>(count, concatenate(inputs, 0)); },
        [&](GradientSync& sync, std::size_t d, const Tensor& x) { return sync.all_gather(device(d), x); });
  }
}

TEST_CASE("collectives, gradients: broadcast") {
  for (const std::size_t count : {2, 3, 4})
    check_derivatives(
        count, std::vector<Shape>(count, {3}),
        [&](const Inputs& inputs) {
          std::vector<Tensor> outputs;
          for (std::size_t d = 0; d < count; ++d) outputs.push_back(inputs[1] + inputs[d] * 0.0);
          return outputs;
        },
        [&](GradientSync& sync, std::size_t d, const Tensor& x) {
          return sync.broadcast(device(d), x, test_device(1));
        });
}

TEST_CASE("collectives, gradients: all_to_all of uneven parts") {
  for (const std::size_t count : {2, 3, 4})
    check_derivatives(
        count, std::vector<Shape>(count, {signed_size(count) + 1, 2}),
        [&](const Inputs& inputs) {  // two rows for the first device, one for each other
          std::vector<Tensor> outputs;
          for (std::size_t to = 0; to < count; ++to) {
            std::vector<Tensor> rows;
            for (const Tensor& x : inputs)
              rows.push_back(slice(x, 0, to == 0 ? 0 : signed_size(to) + 1, signed_size(to) + 2));
            outputs.push_back(concatenate(rows, 0));
          }
          return outputs;
        },
        [&](GradientSync& sync, std::size_t d, const Tensor& x) { return sync.all_to_all(device(d), x); });
}

TEST_CASE("collectives, gradients: a device whose input has none takes part in the others' backward") {
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    const Tensor x(Array::full({2}, 3, DType::f64, device(d)), d == 0);
    const Tensor y = sync.broadcast(device(d), x, test_device()).resolve();
    CHECK(y.requires_grad());
    backward(sum(y * y));
    if (d == 0) CHECK(gradient_of(x) == Values{12, 12});
    const NoGrad none;
    CHECK_FALSE(sync.all_reduce(device(d), x).resolve().requires_grad());
  });
}

TEST_CASE("collectives, gradients: max, min and integers have none") {
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    const Tensor x(Array::full({2}, 3, DType::f64, device(d)), true);
    CHECK_FALSE(sync.all_reduce(device(d), x, CollectiveOperation::max).resolve().requires_grad());
    CHECK_FALSE(sync.all_reduce(device(d), x, CollectiveOperation::min).resolve().requires_grad());
    CHECK_FALSE(sync.all_reduce(device(d), cast(x, DType::i64)).resolve().requires_grad());
  });
}

// --- whole steps, beside one device with the concatenated batch

namespace {

constexpr std::int64_t kBatch = 4;  // per device

struct Network : Module {
  explicit Network(Generator random = Generator(7))
      : hidden(5, 7, random, {.dtype = DType::f64, .device = test_device()}),
        output(7, 3, random, {.dtype = DType::f64, .device = test_device()}) {}
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden;
  Linear output;
};

using Weights = std::vector<Tensor>;  // hidden, its bias, output, its bias

Tensor loss_with(const Weights& w, const Tensor& x, const Tensor& labels) {
  return cross_entropy(linear(tanh(linear(x, w[0], w[1])), w[2], w[3]), labels);
}

struct Batch {
  Tensor x;
  Tensor labels;
};

Batch batch_of(std::uint64_t step, std::int64_t begin, std::int64_t end, Device on_device) {
  Generator random(42, step);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 4 * kBatch; ++i) labels.push_back(static_cast<std::int64_t>(random.below(3)));
  const Array x = random.normal({4 * kBatch, 5}, DType::f64, test_device());
  return {Tensor(x.slice(0, begin, end).to(on_device)),
          Tensor(Array::from(labels, {4 * kBatch}, test_device()).slice(0, begin, end).to(on_device))};
}

using Average = std::function<Weights(Weights)>;  // of gradients, over the devices
using StepLoss = std::function<Tensor(const Weights&, const Batch&, const Batch&, const Average&)>;

Values flat(const Weights& weights) {
  Values values;
  for (const Tensor& weight : weights)
    for (const double value : weight.to_vector<double>()) values.push_back(value);
  return values;
}

Values train_one_device(std::size_t count, const StepLoss& loss) {
  Network model;
  Sgd optimizer(model.parameters(), 0.2);
  const std::int64_t examples = signed_size(count) * kBatch;
  for (std::uint64_t i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    backward(loss(model.parameters(), batch_of(2 * i, 0, examples, test_device()),
                  batch_of(2 * i + 1, 0, examples, test_device()), [](Weights gradients) { return gradients; }));
    optimizer.step();
  }
  return flat(model.parameters());
}

Values train_devices(std::size_t count, const StepLoss& loss) {
  GradientSync sync(test_devices(count));
  auto replicas = sync.replicate(Network{});
  run_devices(count, [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 0.2);
    const Average average = [&](Weights gradients) {
      std::vector<PendingTensor> pending;
      for (const Tensor& gradient : gradients)
        pending.push_back(sync.all_reduce(device(d), gradient, CollectiveOperation::mean));
      for (std::size_t i = 0; i < pending.size(); ++i) gradients[i] = pending[i].resolve();
      return gradients;
    };
    const std::int64_t begin = signed_size(d) * kBatch;
    for (std::uint64_t i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      auto step = sync.step(device(d), static_cast<double>(kBatch));
      step.backward(loss(replicas[d].parameters(), batch_of(2 * i, begin, begin + kBatch, device(d)),
                         batch_of(2 * i + 1, begin, begin + kBatch, device(d)), average));
      optimizer.step();
    }
  });
  const Values first = flat(replicas[0].parameters());
  for (std::size_t d = 1; d < count; ++d) CHECK(flat(replicas[d].parameters()) == first);
  return first;
}

void check_equivalence(const StepLoss& loss) {
  for (const std::size_t count : {2, 3, 4}) {
    const Values one = train_one_device(count, loss);
    const Values many = train_devices(count, loss);
    REQUIRE(one.size() == many.size());
    double furthest = 0;
    for (std::size_t i = 0; i < one.size(); ++i) furthest = std::max(furthest, std::abs(one[i] - many[i]));
    CHECK(furthest < 1e-10);
  }
}

}  // namespace

TEST_CASE("collectives, gradients: a gradient penalty equals one device with the concatenated batch") {
  check_equivalence([](const Weights& weights, const Batch& batch, const Batch&, const Average& average) {
    const Tensor loss = loss_with(weights, batch.x, batch.labels);
    Tensor penalty(0.0);
    for (const Tensor& gradient : average(grad(loss, weights, {.create_graph = true})))
      penalty = penalty + sum(gradient * gradient);
    return loss + penalty * 0.5;
  });
}

TEST_CASE("collectives, gradients: a MAML step equals one device with the concatenated batch") {
  check_equivalence([](const Weights& weights, const Batch& train, const Batch& test, const Average& average) {
    const Tensor inner = loss_with(weights, train.x, train.labels);
    const Weights gradients = average(grad(inner, weights, {.create_graph = true}));
    Weights adapted;
    for (std::size_t i = 0; i < weights.size(); ++i) adapted.push_back(weights[i] - gradients[i] * 0.3);
    return loss_with(adapted, test.x, test.labels);
  });
}
