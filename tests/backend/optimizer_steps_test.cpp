// SPDX-License-Identifier: Apache-2.0
// The fused steps against their formulas, written out in double.
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/optimizer_formulas.h>
#include <tutti/backend/registry.h>
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

void check_sgd(SgdStep step, DType dtype, double tolerance) {
  for (const std::int64_t size : kSizes) {
    auto p = numbers(size, 0);
    auto v = numbers(size, 2);
    const auto g = numbers(size, 1);
    const Array parameter = array_of(p, dtype);
    const Array momentum = step.momentum != 0 ? array_of(v, dtype) : Array();
    for (int round = 0; round < 3; ++round) {
      step.first = round == 0;
      backend_for(test_device()).sgd_step(step, parameter, array_of(g, dtype), momentum);
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
      AdamWStep step{.rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5};
      auto p = numbers(size, 0);
      const auto g = numbers(size, 1);
      std::vector<double> m(p.size(), 0.0);
      std::vector<double> v(p.size(), 0.0);
      const Array parameter = array_of(p, dtype);
      const Array mean = array_of(m, dtype);
      const Array square = array_of(v, dtype);
      for (step.step = 1; step.step <= 5; ++step.step) {
        backend_for(test_device()).adamw_step(step, parameter, array_of(g, dtype), mean, square);
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double gradient = step.gradient_scale * g[i];
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

/// What a thread computes that has one element, as on a CUDA device.
template <class T> void check_elements(DType dtype) {
  const auto bits = [&](double phase) { return array_of(numbers(1000, phase), dtype); };
  const auto vector = [](const Array& array) { return array.to_vector<T>(); };
  const Array g = bits(1);
  for (const SgdStep& step : {SgdStep{.rate = 0.1, .weight_decay = 0.01, .gradient_scale = 0.3},
                              SgdStep{.rate = 0.1, .momentum = 0.9, .dampening = 0.2, .first = true},
                              SgdStep{.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}) {
    const SgdFormula<T> formula(step);
    const Array p = bits(0);
    const Array v = step.momentum != 0 ? bits(2) : Array();
    auto parameter = vector(p);
    auto velocity = vector(bits(2));
    const auto gradient = vector(g);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      parameter[i] = v.defined() ? formula.with_momentum(parameter[i], gradient[i], velocity[i])
                                 : formula.plain(parameter[i], gradient[i]);
    backend_for(test_device()).sgd_step(step, p, g, v);
    CHECK(vector(p) == parameter);
    if (v.defined()) CHECK(vector(v) == velocity);
  }
  const AdamWStep step{.rate = 0.1, .gradient_scale = 0.3, .step = 7};
  const AdamWFormula<T> formula(step);
  const Array p = bits(0);
  const Array m = bits(2);
  const Array v = array_of(std::vector<double>(1000, 0.25), dtype);
  auto parameter = vector(p);
  auto mean = vector(m);
  auto square = vector(v);
  const auto gradient = vector(g);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    parameter[i] = formula(parameter[i], gradient[i], mean[i], square[i]);
  backend_for(test_device()).adamw_step(step, p, g, m, v);
  CHECK(vector(p) == parameter);
  CHECK(vector(m) == mean);
  CHECK(vector(v) == square);
}

TEST_CASE("an element's step is the same by itself and in a pack") {
  check_elements<float>(DType::f32);
  check_elements<double>(DType::f64);
}

/// Parameters of many sizes, none and one element among them, each with a gradient and two states.
std::vector<std::vector<Array>> many_parameters(DType dtype) {
  std::vector<std::vector<Array>> parameters;
  for (const std::int64_t size : {5, 0, 1, 64, 40'003, 100, 16'384, 17, 3, 63})
    parameters.push_back({array_of(numbers(size, 0), dtype), array_of(numbers(size, 1), dtype),
                          array_of(numbers(size, 2), dtype), array_of(std::vector<double>(size, 0.25), dtype)});
  parameters[3][1] = array_of(numbers(128, 1), dtype).slice(0, 0, 128, 2);
  return parameters;
}

template <class T> void check_many(DType dtype, int threads) {
  Backend& backend = backend_for(test_device());
  const auto check = [&](const auto& one_by_one, const auto& together) {
    const auto expected = many_parameters(dtype);
    const auto found = many_parameters(dtype);
    for (const auto& each : expected) one_by_one(each);
    set_cpu_threads(cpu(), threads);
    together(found);
    set_cpu_threads(cpu(), 1);
    for (std::size_t p = 0; p < found.size(); ++p)
      for (std::size_t i = 0; i < 4; ++i) CHECK(found[p][i].to_vector<T>() == expected[p][i].template to_vector<T>());
  };
  for (const bool plain : {false, true}) {
    const SgdStep step{.rate = 0.1, .momentum = plain ? 0.0 : 0.9, .weight_decay = 0.01};
    check([&](const auto& each) { backend.sgd_step(step, each[0], each[1], plain ? Array() : each[2]); },
          [&](const auto& all) {
            std::vector<SgdOperands> operands;
            for (const auto& each : all) operands.push_back({each[0], each[1], plain ? Array() : each[2]});
            backend.sgd_steps(step, operands);
          });
  }
  const AdamWStep step{.rate = 0.1, .step = 3};
  check([&](const auto& each) { backend.adamw_step(step, each[0], each[1], each[2], each[3]); },
        [&](const auto& all) {
          std::vector<AdamWOperands> operands;
          for (const auto& each : all) operands.push_back({each[0], each[1], each[2], each[3]});
          backend.adamw_steps(step, operands);
        });
}

TEST_CASE("the steps of many parameters at once are those of each, to the bit") {
  for (const int threads : {1, 3}) {
    check_many<float>(DType::f32, threads);
    check_many<double>(DType::f64, threads);
  }
  CHECK_NOTHROW(backend_for(test_device()).sgd_steps({.rate = 0.1}, {}));
  CHECK_NOTHROW(backend_for(test_device()).adamw_steps({.rate = 0.1}, {}));
}

}  // namespace
}  // namespace tutti
