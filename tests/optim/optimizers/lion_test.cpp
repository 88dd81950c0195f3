// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/lion.h>
#include <tutti/tests/optim/optimizer_checks.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number under Lion, program 1 of Chen et al. line by line.
struct ScalarLion {
  double rate;
  LionOptions options;
  double value;
  double mean = 0;

  void step(double gradient) {
    const double mixed = options.beta1 * mean + (1 - options.beta1) * gradient;
    const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
    mean = options.beta2 * mean + (1 - options.beta2) * gradient;
    value -= rate * (sign + options.weight_decay * value);
  }
};

const LionOptions kCases[] = {{}, {.beta1 = 0.5, .beta2 = 0.6, .weight_decay = 0.1}};

}  // namespace

TEST_CASE("Lion: ten steps against an independent scalar implementation") {
  for (const LionOptions& options : kCases) {
    compare_with_scalar<double, Lion, ScalarLion>(0.01, options, 1e-13);
    compare_with_scalar<float, Lion, ScalarLion>(0.01, options, 2e-6);
  }
}

TEST_CASE("Lion: restarts bit by bit, takes empty parameters, and converges") {
  for (const LionOptions& options : kCases) {
    check_restart<Lion>(options);
    check_empty<Lion>(options);
  }
  check_converges<Lion>(0.005, LionOptions{}, 600, 1e-3);
}

TEST_CASE("Lion: refuses options outside their range, by name") {
  check_refused<Lion>(LionOptions{.beta1 = 1.0}, "[Lion] beta1");
  check_refused<Lion>(LionOptions{.beta2 = -0.1}, "[Lion] beta2");
  check_refused<Lion>(LionOptions{.weight_decay = -0.1}, "[Lion] weight_decay");
}

TEST_CASE("Lion: a gradient of 0 moves nothing, one of NaN shows") {
  const Tensor p = make_parameter<float>({1, 2, 3});
  Lion optimizer({p}, 0.5);
  set_gradient<float>(p, {0, 7, std::numeric_limits<float>::quiet_NaN()});
  optimizer.step();
  const auto values = p.to_vector<float>();
  CHECK(values[0] == 1.0F);
  CHECK(values[1] == 1.5F);
  CHECK(std::isnan(values[2]));
}
