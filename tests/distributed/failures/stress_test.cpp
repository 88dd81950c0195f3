// SPDX-License-Identifier: Apache-2.0
// Eight devices, graphs that differ by device and step and depend on values, shared parameters, micro-batches, empty
// steps, weights of 0 and random delays; every block of steps is compared with one device that did the same alone.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/random.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

// Each step wakes eight threads. `./dev check --full` runs 10,000.
constexpr int kDefaultSteps = 200;

constexpr std::size_t kDevices = 8;
constexpr std::size_t kParameters = 12;
constexpr int kBlock = 50;
constexpr double kRate = 0.01;

struct Model : Module {
  Model() {
    Generator random(7);
    for (std::size_t i = 0; i < kParameters; ++i) {
      const Shape shape{static_cast<std::int64_t>(1 + 37 * i % 90)};  // neighbours share buckets, some do not
      parts.emplace_back(random.uniform(shape, DType::f64, test_device(), -1, 1), true);
    }
  }
  void visit(MemberVisitor& v) override {
    for (std::size_t i = 0; i < parts.size(); ++i) v.parameter("part" + std::to_string(i), parts[i]);
  }
  std::vector<Tensor> parts;
};

/// What one device does in one step: the same numbers for the device itself and for the reference.
class Plan {
 public:
  Plan(int step, std::size_t device) : random_(static_cast<std::uint64_t>(step) * 64 + device) {
    empty_ = random_.below(12) == 0;
    const std::uint64_t micro_batches = 1 + (random_.below(4) == 0 ? random_.below(3) : 0);
    for (std::uint64_t i = 0; i < micro_batches; ++i)
      weights_.push_back(random_.below(10) == 0 ? 0.0 : 1.0 + static_cast<double>(random_.below(5)));
  }
  bool empty() const { return empty_; }
  const std::vector<double>& weights() const { return weights_; }

  Tensor loss(const Model& model) {
    Tensor total;
    const std::uint64_t terms = 1 + random_.below(4);
    for (std::uint64_t term = 0; term < terms; ++term) {
      const Tensor& part = pick(model);
      Tensor value = mean(random_.below(2) == 0 ? tanh(part) * part : square(part));
      if (random_.below(3) == 0) {  // a branch that depends on values, the same on equal replicas
        const Tensor& other = pick(model);
        if (part.detach().to_vector<double>()[0] > 0) value = value + mean(sigmoid(other)) * sum(part);
      }
      total = total.defined() ? total + value : value;
    }
    return total;
  }
  void delay() {
    const std::uint64_t kind = random_.below(20);
    if (kind == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_.below(300)));
    if (kind < 4) std::this_thread::yield();
  }

 private:
  const Tensor& pick(const Model& model) { return model.parts[random_.below(model.parts.size())]; }
  Generator random_;
  bool empty_ = false;
  std::vector<double> weights_;
};

void step_of(GradientSync& sync, Model& model, Sgd& optimizer, int number, std::size_t device) {
  Plan plan(number, device);
  optimizer.zero_grad();
  plan.delay();
  auto step = sync.step(test_device(device), plan.weights().back());
  if (plan.empty()) {
    step.synchronize();
  } else {
    for (std::size_t i = 0; i + 1 < plan.weights().size(); ++i) {
      const NoSync local = step.no_sync(plan.weights()[i]);
      backward(plan.loss(model));
    }
    const Tensor loss = plan.loss(model);
    plan.delay();
    step.backward(loss);
  }
  optimizer.step();
}

// One device in place of eight: the gradient of the weighted mean of all losses.
void reference_step(Model& model, int number) {
  std::vector<std::vector<double>> sums(kParameters);
  double total = 0;
  for (std::size_t device = 0; device < kDevices; ++device) {
    Plan plan(number, device);
    plan.delay();
    if (plan.empty()) continue;
    for (const double weight : plan.weights()) {
      const Tensor loss = plan.loss(model);
      total += weight;
      const auto gradients = grad(std::span(&loss, 1), model.parts, {.allow_unused = true});
      for (std::size_t i = 0; i < kParameters; ++i) {
        if (!gradients[i].defined() || weight == 0) continue;
        const auto values = gradients[i].to_vector<double>();
        sums[i].resize(values.size());
        for (std::size_t k = 0; k < values.size(); ++k) sums[i][k] += weight * values[k];
      }
    }
  }
  for (std::size_t i = 0; i < kParameters && total > 0; ++i) {
    if (sums[i].empty()) continue;
    auto values = model.parts[i].to_vector<double>();
    for (std::size_t k = 0; k < values.size(); ++k) values[k] -= kRate * sums[i][k] / total;
    model.parts[i].set_array(Array::from(values, model.parts[i].shape(), test_device()));
  }
}

int steps_to_run() {
  return environment_number("TUTTI_STRESS_STEPS", kDefaultSteps, 1, std::numeric_limits<int>::max());
}

}  // namespace

TEST_CASE("stress: eight devices with random graphs equal one device, step by step") {
  Model reference;
  GradientSync sync(test_devices(kDevices), {.bucket_bytes = 2048});
  auto replicas = sync.replicate(reference);
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (Model& replica : replicas) optimizers.push_back(std::make_unique<Sgd>(replica.parameters(), kRate));
  const int steps = steps_to_run();
  for (int begin = 0; begin < steps; begin += kBlock) {
    const int end = std::min(steps, begin + kBlock);
    run_devices(kDevices, [&](std::size_t d) {
      for (int number = begin; number < end; ++number) step_of(sync, replicas[d], *optimizers[d], number, d);
    });
    for (int number = begin; number < end; ++number) reference_step(reference, number);
    double worst = 0;
    for (std::size_t i = 0; i < kParameters; ++i) {
      const auto expected = reference.parts[i].to_vector<double>();
      const auto first = replicas[0].parts[i].to_vector<double>();
      for (std::size_t k = 0; k < expected.size(); ++k) worst = std::max(worst, std::abs(first[k] - expected[k]));
      for (const Model& replica : replicas) REQUIRE(replica.parts[i].to_vector<double>() == first);  // bit for bit
    }
    REQUIRE_MESSAGE(worst < 1e-9, "after step ", end, ": ", worst);
  }
}
