// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/optim/optimizer_checks.h>
#include <tutti/tests/optim/reference.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number under AdamW, algorithm 2 of Loshchilov and Hutter line by line.
struct ScalarAdamW {
  double rate;
  AdamWOptions options;
  double value;
  double mean = 0;
  double square = 0;
  int steps = 0;

  void step(double gradient) {
    ++steps;
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double corrected_mean = mean / (1 - std::pow(options.beta1, steps));
    const double corrected_square = square / (1 - std::pow(options.beta2, steps));
    value -= rate * options.weight_decay * value;
    value -= rate * corrected_mean / (std::sqrt(corrected_square) + options.epsilon);
  }
};

template <class T> void compare(const AdamWOptions& options, double tolerance) {
  compare_with_scalar<T, AdamW, ScalarAdamW>(0.01, options, tolerance);
}

}  // namespace

TEST_CASE("AdamW: ten steps against an independent scalar implementation") {
  const AdamWOptions cases[] = {
      {},
      {.weight_decay = 0},
      {.weight_decay = 0.5},
      {.beta1 = 0, .beta2 = 0.9},
      {.beta1 = 0.5, .beta2 = 0.5, .epsilon = 0.1, .weight_decay = 0.1},
  };
  for (const AdamWOptions& options : cases) {
    CAPTURE(options.beta1);
    CAPTURE(options.epsilon);
    CAPTURE(options.weight_decay);
    compare<double>(options, 1e-13);
    compare<float>(options, 2e-6);
  }
}

TEST_CASE("AdamW: a parameter that starts late is corrected by its own steps") {
  const Tensor p = make_parameter<double>({0});
  const Tensor late = make_parameter<double>({0});
  AdamW optimizer({p, late}, 0.1, {.weight_decay = 0});
  for (int step = 0; step < 5; ++step) {
    set_gradient<double>(p, {1});
    optimizer.step();
  }
  set_gradient<double>(late, {1});
  optimizer.step();
  CHECK(late.to_vector<double>()[0] == doctest::Approx(-0.1));  // the first step has the length of the rate
}

TEST_CASE("AdamW: a zero gradient decays the weight and nothing else") {
  const Tensor p = make_parameter<double>({2});
  AdamW optimizer({p}, 0.1, {.weight_decay = 0.5});
  set_gradient<double>(p, {0});
  optimizer.step();
  CHECK(p.to_vector<double>()[0] == doctest::Approx(1.9));
}

TEST_CASE("AdamW: a sparse gradient steps its rows and leaves the others, as Adam's does") {
  check_sparse<AdamW>(AdamWOptions{.epsilon = 0.1, .weight_decay = 0},
                      {1.0, 2.0, 2.827435928450589, 3.8753098677935287, 4.954416104514654, 6.048730469726016,
                       6.885455340613113, 8.0741094569387});  // of torch.optim.SparseAdam
  check_sparse<AdamW>(AdamWOptions{.weight_decay = 0},
                      {1.0, 2.0, 2.701284439418639, 3.7934904442766952, 4.925586322349636, 6.074413678434753,
                       6.8178030644113, 8.112406540515385});
  const Tensor table = matrix_parameter({4, 2}, DType::f32);
  Tensor(table).set_sparse_grad(true);
  AdamW optimizer({table}, 0.1);
  backward(sum(embedding(table, Tensor(Array::from(std::vector<std::int64_t>{1}, {1}, test_device())))));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("AdamW with weight_decay 0.01"), Error);
}

TEST_CASE("AdamW: refuses options outside their range") {
  const auto refused = [](const AdamWOptions& options) {
    CHECK_THROWS_AS(AdamW({make_parameter<float>({1})}, 0.1, options), Error);
  };
  refused({.beta1 = 1.0});
  refused({.beta1 = -0.1});
  refused({.beta2 = 1.0});
  refused({.beta2 = std::nan("")});
  refused({.epsilon = 0});
  refused({.weight_decay = -0.1});
}
