// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/lbfgs.h>
#include <tutti/tests/optim/optimizer_checks.h>

#include <cmath>
#include <limits>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// sum((p - target)^2 scale), of which L-BFGS finds the least in a few iterations.
struct Problem {
  explicit Problem(const LbfgsOptions& options, double rate = 1.0)
      : p(matrix_parameter({4, 3}, DType::f64)),
        target(matrix_parameter({4, 3}, DType::f64, 2.0).array()),
        scale(arange(1, 13, 1, {.dtype = DType::f64, .device = test_device()}).reshape({4, 3})),
        optimizer({p}, rate, options) {}

  Tensor loss() const { return sum(square(p - target) * scale); }
  double step() {
    return optimizer.step([this] {
      ++evaluations;
      optimizer.zero_grad();
      const Tensor found = loss();
      backward(found);
      return found;
    });
  }

  Tensor p, target, scale;
  Lbfgs optimizer;
  int evaluations = 0;
};

}  // namespace

TEST_CASE("Lbfgs: finds the least of a quadratic function, with and without a line search") {
  for (const bool strong_wolfe : {false, true}) {
    Problem problem({.iterations = 40, .strong_wolfe = strong_wolfe});
    const double before = problem.loss().item<double>();
    CHECK(problem.step() == before);
    CHECK(problem.loss().item<double>() < 1e-9);
    CHECK(problem.optimizer.steps() == 1);
    CHECK(problem.evaluations <= 50);
  }
}

TEST_CASE("Lbfgs: restarts bit by bit, also with less history than the state has room for") {
  for (const bool strong_wolfe : {false, true}) {
    const LbfgsOptions options{.iterations = 3, .history = 4, .strong_wolfe = strong_wolfe};
    Problem first(options);
    for (int step = 0; step < 2; ++step) first.step();
    Problem second(options);
    {
      const NoGrad in_place;
      second.p.copy_(first.p);
    }
    second.optimizer.load_state(first.optimizer.state());
    for (int step = 0; step < 2; ++step) CHECK(first.step() == second.step());
    CHECK(first.p.to_vector<double>() == second.p.to_vector<double>());
    CHECK(second.optimizer.steps() == 4);
  }
  Problem much({.iterations = 5, .history = 10});
  much.step();
  Problem little({.iterations = 5, .history = 2});
  CHECK_THROWS_WITH_AS(little.optimizer.load_state(much.optimizer.state()),
                       doctest::Contains("state arrays, expected 6"), Error);
}

TEST_CASE("Lbfgs: state has a pair of arrays for each iteration that taught something, up to the history") {
  Problem problem({.iterations = 6, .history = 3});
  problem.step();
  const Optimizer::State state = problem.optimizer.state();
  REQUIRE(state.parameters.size() == 1);
  std::vector<std::string> names;
  for (const auto& [name, array] : state.parameters[0].arrays) names.push_back(name);
  CHECK(names == std::vector<std::string>{"gradient", "step", "s0", "y0", "s1", "y1", "s2", "y2"});
  CHECK(state.parameters[0].steps == 6);
}

TEST_CASE("Lbfgs: a closure that throws leaves parameters and state as they were") {
  Problem problem({.iterations = 5, .strong_wolfe = true});
  problem.step();
  const auto before = problem.p.to_vector<double>();
  int calls = 0;
  CHECK_THROWS_AS(problem.optimizer.step([&]() -> Tensor {
    if (++calls == 3) throw std::runtime_error("no more");
    problem.optimizer.zero_grad();
    const Tensor loss = sum(exp(problem.p));
    backward(loss);
    return loss;
  }),
                  std::runtime_error);
  CHECK(problem.p.to_vector<double>() == before);
  CHECK(problem.optimizer.steps() == 1);
  CHECK_NOTHROW(problem.step());
}

TEST_CASE("Lbfgs: squares of f32 gradients may be beyond f32") {
  const Tensor p = matrix_parameter({4, 3}, DType::f32);
  Lbfgs optimizer({p}, 1.0, {.iterations = 40, .strong_wolfe = true});
  const auto loss = [&] { return sum(square(p - 2.0)) * 1e21; };
  const double before = loss().item<double>();
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor found = loss();
    backward(found);
    return found;
  });
  CHECK(loss().item<double>() < 1e-3 * before);
}

TEST_CASE("Lbfgs: a search steps back from where the loss is not finite") {
  const Tensor p(Array::from(std::vector<double>{3.0}, {1}, test_device()), true);
  Lbfgs optimizer({p}, 100.0, {.iterations = 20, .strong_wolfe = true});
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = sum(p - log(p));  // NaN below 0, least at 1
    backward(loss);
    return loss;
  };
  for (int step = 0; step < 5; ++step) optimizer.step(closure);
  CHECK(p.item<double>() == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("Lbfgs: without a search, it ends before a step to where the loss is not finite") {
  const Tensor p(Array::from(std::vector<double>{3.0}, {1}, test_device()), true);
  Lbfgs optimizer({p}, 100.0);
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = sum(p - log(p));  // NaN below 0, where the first step goes
    backward(loss);
    return loss;
  };
  const double loss = optimizer.step(closure);
  CHECK(p.item<double>() == 3.0);
  CHECK(optimizer.step(closure) == loss);
  CHECK(p.item<double>() == 3.0);
}

TEST_CASE("Lbfgs: a gradient that is not finite is refused by its number, and changes nothing") {
  const Tensor first(Array::from(std::vector<double>{1.0}, {1}, test_device()), true);
  for (const bool strong_wolfe : {false, true})
    for (const double at : {1.0, 0.0}) {
      const Tensor second(Array::from(std::vector<double>{at, 2.0}, {2}, test_device()), true);
      Lbfgs optimizer({first, second}, 1.0, {.strong_wolfe = strong_wolfe});
      int calls = 0;
      const auto closure = [&] {
        optimizer.zero_grad();
        // At 0 the gradient is infinite and the loss is not.
        const Tensor loss = sum(square(first)) + sum(sqrt(++calls == 2 ? second * 0.0 : second));
        backward(loss);
        return loss;
      };
      CHECK_THROWS_WITH_AS(optimizer.step(closure), doctest::Contains("the gradient of parameter 1 is not finite"),
                           Error);
      CHECK(calls == (at == 0.0 ? 1 : 2));
      CHECK(first.item<double>() == 1.0);
      CHECK(second.to_vector<double>() == std::vector<double>{at, 2.0});
      CHECK(optimizer.steps() == 0);
    }
}

TEST_CASE("Lbfgs: a state whose parameters have different steps or numbers of arrays is refused") {
  const auto optimize = [](Lbfgs& optimizer, const Tensor& a, const Tensor& b) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = sum(square(a)) + sum(square(b) * 3.0);
      backward(loss);
      return loss;
    });
  };
  const Tensor a = matrix_parameter({3}, DType::f64);
  const Tensor b = matrix_parameter({2}, DType::f64, 2.0);
  Lbfgs optimizer({a, b}, 0.1, {.iterations = 4});
  optimize(optimizer, a, b);
  const Optimizer::State state = optimizer.state();
  REQUIRE(state.parameters[1].arrays.size() > 2);

  Optimizer::State fewer = state;
  fewer.parameters[1].arrays.resize(2);
  CHECK_THROWS_WITH_AS(optimizer.load_state(fewer), doctest::Contains("parameter 1 has 4 steps and 2 state arrays"),
                       DataError);
  Optimizer::State none = state;
  none.parameters[1] = {};
  CHECK_THROWS_WITH_AS(optimizer.load_state(none), doctest::Contains("parameter 1 has 0 steps and 0 state arrays"),
                       DataError);
  Optimizer::State later = state;
  ++later.parameters[0].steps;
  CHECK_THROWS_WITH_AS(optimizer.load_state(later), doctest::Contains("parameter 0 has 5 and"), DataError);
  CHECK_NOTHROW(optimize(optimizer, a, b));
  CHECK_NOTHROW(optimizer.load_state(state));
}

TEST_CASE("Lbfgs: parameters without gradients or elements stay") {
  const Tensor used = matrix_parameter({3}, DType::f32);
  const Tensor unused = matrix_parameter({2}, DType::f32);
  const Tensor empty = matrix_parameter({0, 2}, DType::f32);
  const auto before = unused.to_vector<float>();
  Lbfgs optimizer({used, unused, empty});
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = sum(square(used)) + sum(empty);
    backward(loss);
    return loss;
  });
  CHECK(unused.to_vector<float>() == before);
  CHECK(max(abs(used)).item<double>() < 1e-3);
}

TEST_CASE("Lbfgs: what it cannot do is refused by name") {
  const Tensor p = matrix_parameter({2}, DType::f32);
  CHECK_THROWS_WITH_AS(Lbfgs({p}, 1, {.iterations = 0}), doctest::Contains("[Lbfgs] iterations"), Error);
  CHECK_THROWS_WITH_AS(Lbfgs({p}, 1, {.evaluations = -1}), doctest::Contains("[Lbfgs] evaluations"), Error);
  CHECK_THROWS_WITH_AS(Lbfgs({p}, 1, {.history = 0}), doctest::Contains("[Lbfgs] history"), Error);
  CHECK_THROWS_WITH_AS(Lbfgs({p}, 1, {.tolerance_change = -1}), doctest::Contains("tolerance_change"), Error);
  CHECK_THROWS_WITH_AS(Lbfgs({matrix_parameter({2}, DType::bf16)}), doctest::Contains("[Lbfgs] a parameter is bf16"),
                       DTypeError);
  Lbfgs optimizer({p});
  Optimizer& any = optimizer;
  CHECK_THROWS_WITH_AS(any.step(), doctest::Contains("[optimizer.step] Lbfgs computes the loss several times"), Error);
  CHECK_THROWS_WITH_AS(optimizer.step([&] { return ones({2}); }),
                       doctest::Contains("[Lbfgs.step] the closure returned [2]: the loss must be one number"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(optimizer.step([] { return Tensor(); }),
                       doctest::Contains("[Lbfgs.step] the closure returned an undefined tensor"), ShapeError);
  CHECK_THROWS_WITH_AS(optimizer.step([&] { return sum(p); }),
                       doctest::Contains("[Lbfgs.step] no parameter has a gradient: the closure must call backward"),
                       Error);
  // Gradients from before are no excuse.
  int calls = 0;
  const std::vector<float> before = p.to_vector<float>();
  const auto once = [&] {
    const Tensor loss = sum(square(p + 1.0));
    if (calls++ == 0) backward(loss);
    return loss;
  };
  CHECK_THROWS_WITH_AS(optimizer.step(once), doctest::Contains("the closure must call backward"), Error);
  CHECK(calls == 2);
  CHECK(p.to_vector<float>() == before);
  CHECK_FALSE(optimizer.torn());
  CHECK_THROWS_WITH_AS(optimizer.step(nullptr), doctest::Contains("[Lbfgs.step] there is no closure"), Error);
  const auto nan = [&] {
    optimizer.zero_grad();
    const Tensor loss = sum(p) * std::numeric_limits<float>::quiet_NaN();
    backward(loss);
    return loss;
  };
  CHECK_THROWS_WITH_AS(optimizer.step(nan), doctest::Contains("the loss is nan before the first iteration"), Error);
}
