// SPDX-License-Identifier: Apache-2.0
// Steps of SGD and AdamW against their formulas, written out in double.
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/formulas/optimizer_rules.h>
#include <tutti/backend/registry.h>
#include <tutti/testing/devices/optimizer_rule_samples.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

constexpr std::int64_t kSizes[] = {1, 7, 16, 100, 40'003};

std::vector<double> numbers(std::int64_t count, double phase) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i) + phase);
  return values;
}
Array array_of(const std::vector<double>& values, DType dtype) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()).cast(dtype).copy();
}
void check_close(const Array& found, const std::vector<double>& expected, double tolerance) {
  const auto values = found.cast(DType::f64).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(values[i] - expected[i]));
  CHECK(worst <= tolerance);
}

void step_one(const OptimizerRule& rule, const RuleOperands& operands) {
  backend_for(test_device()).optimizer_step(rule, {&operands, 1});
}

void check_sgd(SgdStep step, DType dtype, double tolerance) {
  for (const std::int64_t size : kSizes) {
    auto p = numbers(size, 0);
    auto v = numbers(size, 2);
    const auto g = numbers(size, 1);
    const Array parameter = array_of(p, dtype);
    const Array momentum = step.momentum != 0 ? array_of(v, dtype) : Array();
    for (int round = 0; round < 3; ++round) {
      step.first = round == 0;
      step_one(step, {parameter, array_of(g, dtype), {momentum}});
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double gradient = step.gradient_scale * g[i] + step.weight_decay * p[i];
        if (step.momentum != 0)
          v[i] = step.first ? gradient : step.momentum * v[i] + (1 - step.dampening) * gradient;
        else
          v[i] = gradient;
        p[i] -= step.rate * (step.nesterov ? gradient + step.momentum * v[i] : v[i]);
      }
    }
    check_close(parameter, p, tolerance);
    if (momentum.defined()) check_close(momentum, v, tolerance);
  }
}

TEST_CASE("sgd_step follows its formula") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f32 ? 2e-6 : 1e-14;
    check_sgd({.rate = 0.1}, dtype, tolerance);
    check_sgd({.rate = 0.1, .weight_decay = 0.01, .gradient_scale = 0.5}, dtype, tolerance);
    check_sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, dtype, tolerance);
    check_sgd({.rate = 0.1, .momentum = 0.9, .dampening = 0.5}, dtype, tolerance);
    check_sgd({.rate = 0.1, .momentum = 0.9, .gradient_scale = 0.25, .nesterov = true}, dtype, tolerance);
  }
}

TEST_CASE("adamw_step follows its formula") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t size : kSizes) {
      AdamWStep step{.rate = 0.01, .weight_decay = 0.1};
      auto p = numbers(size, 0);
      const auto g = numbers(size, 1);
      std::vector<double> m(p.size(), 0.0);
      std::vector<double> v(p.size(), 0.0);
      const Array parameter = array_of(p, dtype);
      const Array mean = array_of(m, dtype);
      const Array square = array_of(v, dtype);
      for (step.step = 1; step.step <= 5; ++step.step) {
        step_one(step, {parameter, array_of(g, dtype), {mean, square}});
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double gradient = g[i];
          m[i] = step.beta1 * m[i] + (1 - step.beta1) * gradient;
          v[i] = step.beta2 * v[i] + (1 - step.beta2) * gradient * gradient;
          const double corrected_mean = m[i] / (1 - std::pow(step.beta1, step.step));
          const double corrected_square = v[i] / (1 - std::pow(step.beta2, step.step));
          p[i] -=
              step.rate * (corrected_mean / (std::sqrt(corrected_square) + step.epsilon) + step.weight_decay * p[i]);
        }
      }
      check_close(parameter, p, dtype == DType::f32 ? 2e-6 : 1e-13);
      check_close(mean, m, dtype == DType::f32 ? 1e-6 : 1e-14);
      check_close(square, v, dtype == DType::f32 ? 1e-6 : 1e-14);
    }
}

/// Parameters of many sizes, none and one element among them; one gradient is not contiguous.
std::vector<RuleOperands> many_parameters(DType dtype) {
  std::vector<RuleOperands> parameters;
  for (const std::int64_t size : {5, 0, 1, 64, 40'003, 100, 16'384, 17, 3, 63}) {
    const auto positive = [&] { return array_of(std::vector<double>(static_cast<std::size_t>(size), 0.25), dtype); };
    parameters.push_back(
        {array_of(numbers(size, 0), dtype), array_of(numbers(size, 1), dtype), {positive(), positive(), positive()}});
  }
  parameters[3].gradient = array_of(numbers(128, 1), dtype).slice(0, 0, 128, 2);
  return parameters;
}

template <class T> void check_many(const OptimizerRule& rule, DType dtype, int threads) {
  const auto expected = many_parameters(dtype);
  const auto found = many_parameters(dtype);
  for (const RuleOperands& each : expected) step_one(rule, each);
  set_cpu_threads(cpu(), threads);
  backend_for(test_device()).optimizer_step(rule, found);
  set_cpu_threads(cpu(), 1);
  for (std::size_t p = 0; p < found.size(); ++p) {
    CHECK(found[p].parameter.to_vector<T>() == expected[p].parameter.to_vector<T>());
    for (std::size_t s = 0; s < RuleOperands::kMostStates; ++s)
      CHECK(found[p].state[s].to_vector<T>() == expected[p].state[s].to_vector<T>());
  }
}

TEST_CASE("the steps of many parameters at once are those of each, to the bit, for every rule") {
  for (const OptimizerRule& rule : samples::kOptimizerRules) {
    for (const int threads : {1, 3}) {
      check_many<float>(rule, DType::f32, threads);
      check_many<double>(rule, DType::f64, threads);
    }
    CHECK_NOTHROW(backend_for(test_device()).optimizer_step(rule, {}));
  }
}

}  // namespace
}  // namespace tutti
