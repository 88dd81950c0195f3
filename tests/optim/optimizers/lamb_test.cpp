// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/lamb.h>
#include <tutti/tests/optim/optimizer_checks.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// A parameter under LAMB, algorithm 2 of You et al. line by line.
struct VectorLamb {
  double rate;
  LambOptions options;
  std::vector<double> values;
  std::vector<double> mean = std::vector<double>(values.size(), 0.0);
  std::vector<double> square = mean;
  int steps = 0;

  void step(const std::vector<double>& gradient) {
    ++steps;
    std::vector<double> direction(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      mean[i] = options.beta1 * mean[i] + (1 - options.beta1) * gradient[i];
      square[i] = options.beta2 * square[i] + (1 - options.beta2) * gradient[i] * gradient[i];
      const double corrected_mean = mean[i] / (1 - std::pow(options.beta1, steps));
      const double corrected_square = square[i] / (1 - std::pow(options.beta2, steps));
      direction[i] =
          corrected_mean / (std::sqrt(corrected_square) + options.epsilon) + options.weight_decay * values[i];
    }
    const bool scaled = options.adapt && norm(values) > 0 && norm(direction) > 0;
    const double ratio = scaled ? norm(values) / norm(direction) : 1;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * ratio * direction[i];
  }
};

template <class T> void compare(const LambOptions& options, std::vector<double> start, double tolerance) {
  const Tensor p(Array::from(start, {static_cast<std::int64_t>(start.size())}, test_device()).cast(dtype_of<T>).copy(),
                 true);
  Lamb optimizer({p}, 0.01, options);
  VectorLamb reference{0.01, options, std::move(start)};
  for (int step = 0; step < 10; ++step) {
    std::vector<T> gradient;
    std::vector<double> exact;
    for (std::size_t i = 0; i < reference.values.size(); ++i) {
      gradient.push_back(static_cast<T>(gradient_at(step, i)));
      exact.push_back(static_cast<double>(gradient.back()));
    }
    set_gradient(p, gradient);
    optimizer.step();
    reference.step(exact);
  }
  const auto values = p.to_vector<T>();
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - reference.values[i]) < tolerance);
}

const LambOptions kCases[] = {{},
                              {.weight_decay = 0},
                              {.beta1 = 0.5, .beta2 = 0.6, .epsilon = 0.1, .weight_decay = 0.5},
                              {.weight_decay = 0.1, .adapt = false}};

}  // namespace

TEST_CASE("Lamb: ten steps against an independent implementation") {
  std::vector<double> start;
  for (int i = 0; i < 37; ++i) start.push_back(std::cos(i));
  for (const LambOptions& options : kCases) {
    compare<double>(options, start, 1e-13);
    compare<float>(options, start, 4e-6);
    compare<double>(options, std::vector<double>(5, 0.0), 1e-13);  // the ratio of a norm of 0 is 1
  }
}

TEST_CASE("Lamb: nothing to move along moves nothing") {
  const Tensor p = make_parameter<float>({1, 2});
  Lamb optimizer({p}, 0.1, {.weight_decay = 0});
  set_gradient<float>(p, {0, 0});
  optimizer.step();
  CHECK(p.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("Lamb: restarts bit by bit, takes empty parameters, and converges") {
  for (const LambOptions& options : kCases) {
    check_restart<Lamb>(options);
    check_empty<Lamb>(options);
  }
  check_converges<Lamb>(0.01, LambOptions{.weight_decay = 0}, 600, 1e-3);
}

TEST_CASE("Lamb: refuses options outside their range, by name") {
  check_refused<Lamb>(LambOptions{.beta1 = 1.0}, "[Lamb] beta1");
  check_refused<Lamb>(LambOptions{.beta2 = 1.0}, "[Lamb] beta2");
  check_refused<Lamb>(LambOptions{.epsilon = 0}, "[Lamb] epsilon");
  check_refused<Lamb>(LambOptions{.weight_decay = -1}, "[Lamb] weight_decay");
}
