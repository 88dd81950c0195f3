// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>

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

double gradient_at(int step, std::size_t element) { return std::sin(1.7 * step + 0.3 * static_cast<double>(element)); }

template <class T> void compare(const SgdOptions& options, double tolerance) {
  constexpr std::size_t kSize = 37;  // no multiple of any pack
  std::vector<T> start;
  std::vector<ScalarSgd> reference;
  for (std::size_t i = 0; i < kSize; ++i) {
    start.push_back(static_cast<T>(std::cos(static_cast<double>(i))));
    reference.push_back({0.05, options, static_cast<double>(start.back())});
  }
  const Tensor p = make_parameter(start);
  Sgd optimizer({p}, 0.05, options);
  for (int step = 0; step < 10; ++step) {
    std::vector<T> gradient;
    for (std::size_t i = 0; i < kSize; ++i) {
      gradient.push_back(static_cast<T>(gradient_at(step, i)));
      reference[i].step(static_cast<double>(gradient.back()));
    }
    set_gradient(p, gradient);
    optimizer.step();
  }
  const std::vector<T> values = p.template to_vector<T>();
  for (std::size_t i = 0; i < kSize; ++i) CHECK(std::abs(values[i] - reference[i].value) < tolerance);
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
