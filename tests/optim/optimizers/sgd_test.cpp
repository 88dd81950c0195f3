// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/reference.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// One number under SGD, written from the formulas of torch.optim.SGD's documentation.
struct ScalarSgd {
  double rate;
  SgdOptions options;
  double value;
  double buffer = 0;
  int steps = 0;

  void step(double gradient) {
    gradient += options.weight_decay * value;
    if (options.momentum != 0) {
      buffer = steps > 0 ? options.momentum * buffer + (1 - options.dampening) * gradient : gradient;
      gradient = options.nesterov ? gradient + options.momentum * buffer : buffer;
    }
    value -= rate * gradient;
    ++steps;
  }
};

template <class T> void compare(const SgdOptions& options, double tolerance) {
  compare_with_scalar<T, Sgd, ScalarSgd>(0.05, options, tolerance);
}

}  // namespace

TEST_CASE("Sgd: ten steps against an independent scalar implementation") {
  const SgdOptions cases[] = {
      {},
      {.weight_decay = 0.1},
      {.momentum = 0.9},
      {.momentum = 0.9, .dampening = 0.3},
      {.momentum = 0.9, .weight_decay = 0.1},
      {.momentum = 0.8, .nesterov = true},
      {.momentum = 0.8, .weight_decay = 0.1, .nesterov = true},
  };
  for (const SgdOptions& options : cases) {
    CAPTURE(options.momentum);
    CAPTURE(options.dampening);
    CAPTURE(options.weight_decay);
    CAPTURE(options.nesterov);
    compare<double>(options, 1e-14);
    compare<float>(options, 2e-6);
  }
}

TEST_CASE("Sgd: the learning rate may change between steps") {
  const Tensor p = make_parameter<float>({1});
  Sgd optimizer({p}, 0.5);
  set_gradient<float>(p, {1});
  optimizer.step();
  optimizer.set_learning_rate(0.25);
  optimizer.step();
  CHECK(p.to_vector<float>()[0] == 0.25F);
}

TEST_CASE("Sgd: momentum starts with the first gradient of each parameter") {
  const Tensor p = make_parameter<float>({0});
  const Tensor late = make_parameter<float>({0});
  Sgd optimizer({p, late}, 1.0, {.momentum = 0.5, .dampening = 0.5});
  set_gradient<float>(p, {1});
  optimizer.step();
  set_gradient<float>(late, {1});
  optimizer.step();
  CHECK(p.to_vector<float>()[0] == -2.0F);     // 1, then 0.5 * 1 + 0.5 * 1
  CHECK(late.to_vector<float>()[0] == -1.0F);  // undamped
}

TEST_CASE("Sgd: without momentum there is no state") {
  const Tensor p = make_parameter<float>({1});
  Sgd optimizer({p}, 0.5);
  set_gradient<float>(p, {1});
  optimizer.step();
  CHECK(optimizer.state().parameters[0].arrays.empty());
  Sgd other({p}, 0.5);
  other.load_state(optimizer.state());
  CHECK(other.steps() == 1);
}

TEST_CASE("Sgd: refuses options outside their range") {
  const auto refused = [](const SgdOptions& options) {
    CHECK_THROWS_AS(Sgd({make_parameter<float>({1})}, 0.1, options), Error);
  };
  refused({.momentum = -0.1});
  refused({.momentum = 1.0});
  refused({.momentum = std::nan("")});
  refused({.momentum = 0.9, .dampening = 1.1});
  refused({.momentum = 0.9, .dampening = -0.1});
  refused({.weight_decay = -1});
  refused({.weight_decay = std::nan("")});
  refused({.nesterov = true});
  refused({.momentum = 0.9, .dampening = 0.1, .nesterov = true});
}
