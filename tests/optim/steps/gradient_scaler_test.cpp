// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("scaler: scaled and unscaled, a step is what it would be without") {
  const Tensor p = make_parameter<float>({1, 2});
  Sgd optimizer({p}, 0.25);
  GradientScaler scaler({.initial_scale = 1024});
  const Tensor loss = sum(p * p);
  const Tensor scaled = scaler.scale(loss);
  CHECK(scaled.item<double>() == 5 * 1024.0);
  backward(scaled);
  CHECK(p.grad().to_vector<float>() == std::vector<float>{2048, 4096});
  CHECK(scaler.step(optimizer));
  CHECK(p.to_vector<float>() == std::vector<float>{0.5F, 1});
}

TEST_CASE("scaler: a step after an unscale of one's own divides once") {
  const Tensor p = make_parameter<float>({1, 2});
  const Tensor q = make_parameter<float>({4});
  const std::vector<Tensor> seen{p};  // q is left to step
  Sgd optimizer({p, q}, 0.25);
  GradientScaler scaler({.initial_scale = 8});
  for (int step = 0; step < 2; ++step) {
    set_gradient<float>(p, {static_cast<float>(2 * scaler.scale()), static_cast<float>(4 * scaler.scale())});
    set_gradient<float>(q, {8});
    CHECK(scaler.unscale(seen));
    CHECK(p.grad().to_vector<float>() == std::vector<float>{2, 4});
    CHECK_THROWS_WITH_AS(scaler.unscale(seen), doctest::Contains("parameter 0 was unscaled since the last update"),
                         Error);
    CHECK(scaler.step(optimizer));
  }
  CHECK(p.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(q.to_vector<float>() == std::vector<float>{3.5F});
}

TEST_CASE("scaler: gradients of a loss that was scaled after an unscale are no step's") {
  const Tensor p = make_parameter<float>({1});
  Sgd optimizer({p}, 0.25);
  GradientScaler scaler({.initial_scale = 8});
  backward(scaler.scale(sum(p)));
  CHECK(scaler.unscale({p}));
  Tensor(p).zero_grad();  // a step that was given up
  backward(scaler.scale(sum(p)));
  CHECK_THROWS_WITH_AS(scaler.step(optimizer), doctest::Contains("a loss was scaled after gradients had been unscaled"),
                       Error);
  CHECK(optimizer.steps() == 0);
  scaler.update(true);
  Tensor(p).zero_grad();
  backward(scaler.scale(sum(p)));
  CHECK(scaler.step(optimizer));
  CHECK(p.to_vector<float>() == std::vector<float>{0.75F});
}

TEST_CASE("scaler: its step is for one optimizer") {
  const Tensor p = make_parameter<float>({1});
  const Tensor q = make_parameter<float>({1});
  Sgd first({p}, 0.25);
  Sgd second({q}, 0.25);
  GradientScaler scaler({.initial_scale = 8});
  set_gradient<float>(p, {8});
  set_gradient<float>(q, {8});
  CHECK(scaler.unscale({p}));
  CHECK(scaler.unscale({q}));
  CHECK_THROWS_WITH_AS(scaler.step(first), doctest::Contains("1 parameters were unscaled that are none"), Error);
  first.step();
  second.step();
  scaler.update(true);
  CHECK(p.to_vector<float>() == std::vector<float>{0.75F});
  CHECK(q.to_vector<float>() == std::vector<float>{0.75F});
}

TEST_CASE("scaler: a step knows that an unscale of one's own found a gradient that is not finite") {
  const Tensor p = make_parameter<float>({1});
  const Tensor q = make_parameter<float>({1});
  const std::vector<Tensor> seen{p};
  Sgd optimizer({p, q}, 0.25);
  GradientScaler scaler({.initial_scale = 8});
  set_gradient<float>(p, {kInfinity});
  set_gradient<float>(q, {8});
  CHECK_FALSE(scaler.unscale(seen));
  CHECK_FALSE(scaler.step(optimizer));
  CHECK(optimizer.steps() == 0);
  CHECK_THROWS_WITH_AS(scaler.step(optimizer), doctest::Contains("no loss was scaled since the last update"), Error);
  CHECK(scaler.scale() == 4.0);
  set_gradient<float>(p, {4});
  set_gradient<float>(q, {4});
  CHECK(scaler.step(optimizer));
  CHECK(p.to_vector<float>() == std::vector<float>{0.75F});
}

TEST_CASE("scaler: a gradient that is not finite is left, its step left out, and the scale lowered") {
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    const Tensor p = make_parameter<float>({1, 2});
    const Tensor q = make_parameter<float>({3});
    Sgd optimizer({p, q}, 0.25);
    GradientScaler scaler;
    set_gradient<float>(p, {1, bad});
    set_gradient<float>(q, {1});
    CHECK_FALSE(scaler.step(optimizer));
    CHECK(scaler.scale() == 32768.0);
    CHECK(optimizer.steps() == 0);
    CHECK(p.to_vector<float>() == std::vector<float>{1, 2});
    CHECK(q.grad().to_vector<float>()[0] == 1.0F);
  }
}

TEST_CASE("scaler: finite gradients whose squares overflow are finite") {
  const Tensor p = make_parameter<float>({0, 0});
  set_gradient<float>(p, {3e30F, -3e30F});
  const std::vector<Tensor> parameters{p, make_parameter<float>({}), make_parameter<float>({1})};
  CHECK(gradients_are_finite(parameters));
  GradientScaler scaler({.initial_scale = 2});
  CHECK(scaler.unscale(parameters));
  CHECK(p.grad().to_vector<float>()[0] == 1.5e30F);
}

TEST_CASE("scaler: grows after a run of finite steps, and stays a number") {
  GradientScaler scaler({.initial_scale = 8, .growth_interval = 3});
  const auto scales = [&](const std::vector<bool>& finite) {
    std::vector<double> seen;
    for (const bool step : finite) {
      scaler.update(step);
      seen.push_back(scaler.scale());
    }
    return seen;
  };
  CHECK(scales({true, true, true, true, true, false, true, true, true}) ==
        std::vector<double>{8, 8, 16, 16, 16, 8, 8, 8, 16});
  for (int i = 0; i < 10'000; ++i) scaler.update(true);
  CHECK(std::isfinite(scaler.scale()));
  for (int i = 0; i < 10'000; ++i) scaler.update(false);
  CHECK(scaler.scale() > 0.0);
}

TEST_CASE("scaler: counts and scales sparse rows, and leaves what somebody has read") {
  const Tensor table(Array::from(std::vector<float>{1, 2, 3, 4}, {2, 2}, test_device()), true);
  Tensor(table).set_sparse_grad(true);
  backward(sum(embedding(table, Tensor(Array::from(std::vector<std::int64_t>{1}, {1}, test_device())))) * 8.0);
  const SparseGradient read = table.sparse_grad();
  GradientScaler scaler({.initial_scale = 8});
  CHECK(scaler.unscale({{table}}));
  CHECK(table.sparse_grad().rows.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(read.rows.to_vector<float>() == std::vector<float>{8, 8});
}

TEST_CASE("scaler: goes on from its state, as a value or as text") {
  GradientScaler scaler({.initial_scale = 10.0 / 3, .growth_interval = 2});
  scaler.update(true);
  GradientScaler restarted({.growth_interval = 2});
  restarted.load_text(scaler.to_text());
  CHECK(restarted.scale() == scaler.scale());
  restarted.update(true);
  CHECK(restarted.scale() == 2 * scaler.scale());
  restarted.load_state(scaler.state());
  CHECK(restarted.scale() == scaler.scale());
  for (const char* text : {"", "8", "8 1 1", "-8 1", "8 -1", "inf 1"})
    CHECK_THROWS_AS(restarted.load_text(text), Error);
}

TEST_CASE("scaler: refuses options outside their range, and gradients that were never reduced") {
  const auto refused = [](const GradientScalerOptions& options, const char* option) {
    CHECK_THROWS_WITH_AS(GradientScaler{options}, doctest::Contains(option), Error);
  };
  refused({.initial_scale = 0}, "initial_scale");
  refused({.growth_factor = 1}, "growth_factor");
  refused({.backoff_factor = 1}, "backoff_factor");
  refused({.backoff_factor = 0}, "backoff_factor");
  refused({.growth_interval = 0}, "growth_interval");
  const Tensor p = make_parameter<float>({1});
  set_gradient<float>(p, {1});
  attach(p, "fc1.bias");
  CHECK_THROWS_WITH_AS(GradientScaler().unscale({{p}}), doctest::Contains("fc1.bias"), Error);
}

TEST_CASE("scaler: refuses f16 gradients, which cannot hold what it unscales") {
  const Tensor p(Array::zeros({2}, DType::f16, test_device()), true);
  const Tensor parameters[] = {p};
  CHECK_THROWS_WITH_AS((void)GradientScaler().unscale(parameters), doctest::Contains("parameter 0 is f16"), DTypeError);
}
