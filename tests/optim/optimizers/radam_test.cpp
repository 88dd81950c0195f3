// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/radam.h>
#include <tutti/tests/optim/optimizer_checks.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number, written from algorithm 2 of the paper.
struct ScalarRAdam {
  double rate;
  RAdamOptions options;
  double value;
  double mean = 0;
  double square = 0;
  int steps = 0;

  void step(double gradient) {
    ++steps;
    if (options.decoupled)
      value -= rate * options.weight_decay * value;
    else
      gradient += options.weight_decay * value;
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double corrected = mean / (1 - std::pow(options.beta1, steps));
    const double power = std::pow(options.beta2, steps);
    const double most = 2 / (1 - options.beta2) - 1;
    const double length = most - 2 * steps * power / (1 - power);
    if (length <= 5) {
      value -= rate * corrected;
      return;
    }
    const double rectification = std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
    value -= rate * rectification * corrected * std::sqrt(1 - power) / (std::sqrt(square) + options.epsilon);
  }
};

const RAdamOptions kCases[] = {{},
                               {.beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.1},
                               {.beta2 = 0.99, .weight_decay = 0.1, .decoupled = true},
                               {.beta2 = 0.5}};  // never rectified

}  // namespace

TEST_CASE("RAdam: ten steps against an independent scalar implementation, before and after rectification begins") {
  for (const RAdamOptions& options : kCases) {
    compare_with_scalar<double, RAdam, ScalarRAdam>(0.01, options, 1e-12);
    compare_with_scalar<float, RAdam, ScalarRAdam>(0.01, options, 1e-5);
  }
}

TEST_CASE("RAdam: restarts bit by bit, takes empty parameters, and converges") {
  for (const RAdamOptions& options : kCases) {
    check_restart<RAdam>(options);
    check_empty<RAdam>(options);
  }
  check_converges<RAdam>(0.03, RAdamOptions{}, 600, 1e-3);
}

TEST_CASE("RAdam: refuses options outside their range, by name") {
  check_refused<RAdam>(RAdamOptions{.beta1 = 1.0}, "[RAdam] beta1 must be in [0, 1)");
  check_refused<RAdam>(RAdamOptions{.beta2 = -0.1}, "[RAdam] beta2");
  check_refused<RAdam>(RAdamOptions{.epsilon = 0.0}, "[RAdam] epsilon");
  check_refused<RAdam>(RAdamOptions{.weight_decay = -1.0}, "[RAdam] weight_decay");
}
