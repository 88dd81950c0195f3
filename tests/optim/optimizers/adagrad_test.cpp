// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/adagrad.h>
#include <tutti/tests/optim/optimizer_checks.h>
#include <tutti/tests/test_devices.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number, written from the formulas of torch.optim.Adagrad's documentation.
struct ScalarAdagrad {
  double rate;
  AdagradOptions options;
  double value;
  double sum = std::nan("");
  int steps = 0;

  void step(double gradient) {
    if (steps == 0) sum = options.initial_accumulator_value;
    const double now = rate / (1 + steps * options.learning_rate_decay);
    ++steps;
    gradient += options.weight_decay * value;
    sum += gradient * gradient;
    value -= now * gradient / (std::sqrt(sum) + options.epsilon);
  }
};

const AdagradOptions kCases[] = {
    {}, {.learning_rate_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.5, .epsilon = 0.01}};

}  // namespace

TEST_CASE("Adagrad: ten steps against an independent scalar implementation") {
  for (const AdagradOptions& options : kCases) {
    compare_with_scalar<double, Adagrad, ScalarAdagrad>(0.01, options, 1e-13);
    compare_with_scalar<float, Adagrad, ScalarAdagrad>(0.01, options, 2e-6);
  }
}

TEST_CASE("Adagrad: restarts bit by bit, takes empty parameters, and converges") {
  for (const AdagradOptions& options : kCases) {
    check_restart<Adagrad>(options);
    check_empty<Adagrad>(options);
  }
  check_converges<Adagrad>(0.5, AdagradOptions{}, 300, 1e-4);
}

TEST_CASE("Adagrad: refuses options outside their range, by name") {
  check_refused<Adagrad>(AdagradOptions{.learning_rate_decay = -1}, "[Adagrad] learning_rate_decay");
  check_refused<Adagrad>(AdagradOptions{.weight_decay = -1}, "[Adagrad] weight_decay");
  check_refused<Adagrad>(AdagradOptions{.initial_accumulator_value = -1}, "[Adagrad] initial_accumulator_value");
  check_refused<Adagrad>(AdagradOptions{.epsilon = 0}, "[Adagrad] epsilon");
}

TEST_CASE("Adagrad: the values of torch.optim") {
  check_torch<Adagrad>(0.01, AdagradOptions{},
                       {0.992190627543324, 0.524604302195721, -0.429497812203503, -1.00074311115474});
  check_torch<Adagrad>(
      0.01,
      AdagradOptions{
          .learning_rate_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.5, .epsilon = 0.01},
      {0.990337395590661, 0.530538267643935, -0.422779176987266, -0.993935894711406});
}

TEST_CASE("Adagrad: a sparse gradient steps its rows and leaves the others") {
  check_sparse<Adagrad>(AdagradOptions{}, {1, 2, 2.75304003672121, 3.90205000939511, 4.900000000002, 6.09999999999833,
                                           6.84855042446013, 8.04452998037658});
  const Tensor table = matrix_parameter({4, 2}, DType::f32);
  Tensor(table).set_sparse_grad(true);
  Adagrad optimizer({table}, 0.1, {.weight_decay = 0.1});
  backward(sum(embedding(table, Tensor(Array::from(std::vector<std::int64_t>{1}, {1}, test_device())))));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("Adagrad with weight_decay 0.1"), Error);
}
