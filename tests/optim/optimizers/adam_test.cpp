// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/adam.h>
#include <tutti/tests/optim/optimizer_checks.h>
#include <tutti/tests/test_devices.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number under Adam, algorithm 1 of Kingma and Ba line by line.
struct ScalarAdam {
  double rate;
  AdamOptions options;
  double value;
  double mean = 0;
  double square = 0;
  double largest = 0;
  int steps = 0;

  void step(double gradient) {
    ++steps;
    gradient += options.weight_decay * value;
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    largest = options.amsgrad ? std::max(largest, square) : square;
    const double corrected_mean = mean / (1 - std::pow(options.beta1, steps));
    const double corrected_square = largest / (1 - std::pow(options.beta2, steps));
    value -= rate * corrected_mean / (std::sqrt(corrected_square) + options.epsilon);
  }
};

const AdamOptions kCases[] = {{},
                              {.weight_decay = 0.1},
                              {.beta1 = 0.5, .beta2 = 0.6, .epsilon = 0.1, .weight_decay = 0.1, .amsgrad = true},
                              {.beta1 = 0, .amsgrad = true}};

}  // namespace

TEST_CASE("Adam: ten steps against an independent scalar implementation") {
  for (const AdamOptions& options : kCases) {
    compare_with_scalar<double, Adam, ScalarAdam>(0.01, options, 1e-13);
    compare_with_scalar<float, Adam, ScalarAdam>(0.01, options, 2e-6);
  }
}

TEST_CASE("Adam: restarts bit by bit, takes empty parameters, and converges") {
  for (const AdamOptions& options : kCases) {
    check_restart<Adam>(options);
    check_empty<Adam>(options);
  }
  check_converges<Adam>(0.05, AdamOptions{}, 300, 1e-4);
}

TEST_CASE("Adam: refuses options outside their range, by name") {
  check_refused<Adam>(AdamOptions{.beta1 = 1.0}, "[Adam] beta1 must be in [0, 1)");
  check_refused<Adam>(AdamOptions{.beta2 = -0.1}, "[Adam] beta2");
  check_refused<Adam>(AdamOptions{.beta2 = std::nan("")}, "[Adam] beta2");
  check_refused<Adam>(AdamOptions{.epsilon = 0}, "[Adam] epsilon");
  check_refused<Adam>(AdamOptions{.weight_decay = -0.1}, "[Adam] weight_decay");
}

TEST_CASE("Adam: the values of torch.optim") {
  check_torch<Adam>(0.01, AdamOptions{}, {0.984379784301901, 0.512198228637168, -0.444991866624489, -1.01780531333569});
  check_torch<Adam>(0.01, AdamOptions{.beta1 = 0.5, .beta2 = 0.6, .weight_decay = 0.1, .amsgrad = true},
                    {0.968423421133604, 0.513875153167184, -0.431963714934865, -0.999189814886227});
}

TEST_CASE("Adam: a sparse gradient steps its rows and leaves the others") {
  check_sparse<Adam>(AdamOptions{}, {1.0, 2.0, 2.701284439418639, 3.7934904442766952, 4.925586322349636,
                                     6.074413678434753, 6.8178030644113, 8.112406540515385});
  check_sparse<Adam>(AdamOptions{.epsilon = 0.1},
                     {1.0, 2.0, 2.827435928450589, 3.8753098677935287, 4.954416104514654, 6.048730469726016,
                      6.885455340613113, 8.0741094569387});  // of torch.optim.SparseAdam
  const Tensor table = matrix_parameter({4, 2}, DType::f32);
  Tensor(table).set_sparse_grad(true);
  Adam optimizer({table}, 0.1, {.weight_decay = 0.1});
  backward(sum(embedding(table, Tensor(Array::from(std::vector<std::int64_t>{1}, {1}, test_device())))));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("Adam with weight_decay 0.1"), Error);
}

TEST_CASE("Adam: amsgrad is part of the state") {
  const Tensor p = matrix_parameter({2, 2}, DType::f32);
  Adam with({p}, 0.1, {.amsgrad = true});
  step_with(with, 0);
  CHECK(with.state().parameters[0].arrays[2].first == "largest_square");
  Adam without({p}, 0.1);
  CHECK_THROWS_WITH_AS(without.load_state(with.state()), doctest::Contains("3 state arrays, expected 2"), Error);
}
