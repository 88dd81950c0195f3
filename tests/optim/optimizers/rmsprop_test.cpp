// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/tests/optim/optimizer_checks.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number, written from the formulas of torch.optim.RMSprop's documentation.
struct ScalarRmsprop {
  double rate;
  RmspropOptions options;
  double value;
  double square = 0;
  double mean = 0;
  double buffer = 0;

  void step(double gradient) {
    gradient += options.weight_decay * value;
    square = options.alpha * square + (1 - options.alpha) * gradient * gradient;
    double variance = square;
    if (options.centered) {
      mean = options.alpha * mean + (1 - options.alpha) * gradient;
      variance -= mean * mean;
    }
    const double change = gradient / (std::sqrt(variance) + options.epsilon);
    buffer = options.momentum * buffer + change;
    value -= rate * (options.momentum > 0 ? buffer : change);
  }
};

const RmspropOptions kCases[] = {{},
                                 {.weight_decay = 0.1, .momentum = 0.9},
                                 {.alpha = 0.5, .centered = true},
                                 {.alpha = 0.5, .epsilon = 0.01, .momentum = 0.9, .centered = true}};

}  // namespace

TEST_CASE("Rmsprop: ten steps against an independent scalar implementation") {
  for (const RmspropOptions& options : kCases) {
    compare_with_scalar<double, Rmsprop, ScalarRmsprop>(0.01, options, 1e-13);
    compare_with_scalar<float, Rmsprop, ScalarRmsprop>(0.01, options, 1e-5);
  }
}

TEST_CASE("Rmsprop: restarts bit by bit, takes empty parameters, and converges") {
  for (const RmspropOptions& options : kCases) {
    check_restart<Rmsprop>(options);
    check_empty<Rmsprop>(options);
  }
  check_converges<Rmsprop>(0.01, RmspropOptions{}, 600, 1e-3);
}

TEST_CASE("Rmsprop: refuses options outside their range, by name") {
  check_refused<Rmsprop>(RmspropOptions{.alpha = 1.0}, "[Rmsprop] alpha must be in [0, 1)");
  check_refused<Rmsprop>(RmspropOptions{.epsilon = 0}, "[Rmsprop] epsilon");
  check_refused<Rmsprop>(RmspropOptions{.weight_decay = -1}, "[Rmsprop] weight_decay");
  check_refused<Rmsprop>(RmspropOptions{.momentum = 1.5}, "[Rmsprop] momentum");
}

TEST_CASE("Rmsprop: the values of torch.optim") {
  check_torch<Rmsprop>(0.01, RmspropOptions{},
                       {0.921457638080942, 0.38302161673277, -0.549861979275381, -1.09760012886587});
  check_torch<Rmsprop>(0.01, RmspropOptions{.weight_decay = 0.1, .momentum = 0.9},
                       {-0.09612647906385, -0.380378202275805, -1.07453819000332, -1.4251158021831});
  check_torch<Rmsprop>(0.01, RmspropOptions{.alpha = 0.5, .centered = true},
                       {0.980060620794331, 0.501689311355831, -0.453634159152629, -1.02074620240842});
  check_torch<Rmsprop>(0.01, RmspropOptions{.alpha = 0.5, .momentum = 0.9, .centered = true},
                       {0.924549198578758, 0.32791037909758, -0.634806078346254, -1.17783222981249});
}
