// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/adadelta.h>
#include <tutti/tests/optim/optimizer_checks.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number, written from the formulas of torch.optim.Adadelta's documentation.
struct ScalarAdadelta {
  double rate;
  AdadeltaOptions options;
  double value;
  double square = 0;
  double change = 0;

  void step(double gradient) {
    gradient += options.weight_decay * value;
    square = options.rho * square + (1 - options.rho) * gradient * gradient;
    const double delta = std::sqrt(change + options.epsilon) / std::sqrt(square + options.epsilon) * gradient;
    change = options.rho * change + (1 - options.rho) * delta * delta;
    value -= rate * delta;
  }
};

const AdadeltaOptions kCases[] = {{}, {.rho = 0.5, .epsilon = 1e-3, .weight_decay = 0.1}};

}  // namespace

TEST_CASE("Adadelta: ten steps against an independent scalar implementation") {
  for (const AdadeltaOptions& options : kCases) {
    compare_with_scalar<double, Adadelta, ScalarAdadelta>(1.0, options, 1e-13);
    compare_with_scalar<float, Adadelta, ScalarAdadelta>(0.3, options, 1e-5);
  }
}

TEST_CASE("Adadelta: restarts bit by bit, takes empty parameters, and converges") {
  for (const AdadeltaOptions& options : kCases) {
    check_restart<Adadelta>(options);
    check_empty<Adadelta>(options);
  }
  check_converges<Adadelta>(10.0, AdadeltaOptions{}, 400, 1e-3);
}

TEST_CASE("Adadelta: refuses options outside their range, by name") {
  check_refused<Adadelta>(AdadeltaOptions{.rho = 1.0}, "[Adadelta] rho must be in [0, 1)");
  check_refused<Adadelta>(AdadeltaOptions{.epsilon = 0.0}, "[Adadelta] epsilon");
  check_refused<Adadelta>(AdadeltaOptions{.weight_decay = -1.0}, "[Adadelta] weight_decay");
}
