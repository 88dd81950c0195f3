// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;

namespace {

const Values kDifferences{0.0, 0.25, -0.5, 2.0, -3.0, 0.7, -0.7};

Tensor predictions() { return leaf(kDifferences); }
Tensor zeros() { return constant(Values(kDifferences.size(), 0.0), {static_cast<std::int64_t>(kDifferences.size())}); }

double huber(double d, double delta) { return std::abs(d) < delta ? d * d / 2 : delta * (std::abs(d) - delta / 2); }

/// The loss of each element and its derivative.
template <class Loss, class Value, class Slope>
void check_elements(const Loss& loss, const Value& value, const Slope& slope) {
  const Tensor x = predictions();
  const Tensor each = loss(x, LossReduction::none);
  const Values found = each.to_vector<double>();
  backward(sum(each));
  const Values gradient = x.grad().to_vector<double>();
  double sum = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(kDifferences[i]);
    CHECK(found[i] == doctest::Approx(value(kDifferences[i])));
    CHECK(gradient[i] == doctest::Approx(slope(kDifferences[i])));
    sum += found[i];
  }
  CHECK(loss(x, LossReduction::sum).template item<double>() == doctest::Approx(sum));
  CHECK(loss(x, LossReduction::mean).template item<double>() ==
        doctest::Approx(sum / static_cast<double>(found.size())));
}

double sign_of(double d) { return d > 0 ? 1 : d < 0 ? -1 : 0; }

}  // namespace

TEST_CASE("l1_loss") {
  check_elements([](const Tensor& x, LossReduction reduction) { return l1_loss(x, zeros(), reduction); },
                 [](double d) { return std::abs(d); }, sign_of);
}

TEST_CASE("huber_loss") {
  for (const double delta : {0.5, 0.7, 1.0, 2.5}) {
    CAPTURE(delta);
    check_elements(
        [=](const Tensor& x, LossReduction reduction) {
          return huber_loss(x, zeros(), {.reduction = reduction, .delta = delta});
        },
        [=](double d) { return huber(d, delta); },
        [=](double d) { return std::abs(d) < delta ? d : delta * sign_of(d); });
  }
}

TEST_CASE("smooth_l1_loss") {
  for (const double beta : {0.5, 0.7, 1.0, 2.5}) {
    CAPTURE(beta);
    check_elements(
        [=](const Tensor& x, LossReduction reduction) {
          return smooth_l1_loss(x, zeros(), {.reduction = reduction, .beta = beta});
        },
        [=](double d) { return huber(d, beta) / beta; },
        [=](double d) { return std::abs(d) < beta ? d / beta : sign_of(d); });
  }
  const Tensor x = predictions();
  CHECK(smooth_l1_loss(x, zeros(), {.beta = 0}).item<double>() == l1_loss(x, zeros()).item<double>());
}

TEST_CASE("regression losses: gradients of both operands, twice") {
  const std::vector<Tensor> inputs{spread({2, 3}, 1), spread({2, 3}, 2)};
  check_gradients([](const std::vector<Tensor>& in) { return mse_loss(in[0], in[1]); }, inputs);
  check_gradients([](const std::vector<Tensor>& in) { return l1_loss(in[0], in[1]); }, inputs);
  check_gradients([](const std::vector<Tensor>& in) { return huber_loss(in[0], in[1], {.delta = 0.45}); }, inputs);
  check_gradients([](const std::vector<Tensor>& in) { return smooth_l1_loss(in[0], in[1], {.beta = 0.45}); }, inputs);
}

TEST_CASE("huber_loss: the second derivative at 0 is 1") {
  const Tensor x = leaf({0});
  const std::vector<Tensor> inputs{x};
  const Tensor gradient = grad(huber_loss(x, constant({0}, {1})), inputs, {.create_graph = true})[0];
  CHECK(grad(sum(gradient), inputs)[0].item<double>() == 1);
}

TEST_CASE("regression losses name what does not fit") {
  const Tensor x = predictions();
  CHECK_THROWS_WITH_AS(l1_loss(x, constant({1}, {1})),
                       doctest::Contains("[l1_loss] prediction [7] and target [1] differ in shape"), ShapeError);
  CHECK_THROWS_WITH_AS(huber_loss(x, zeros(), {.delta = 0}), doctest::Contains("[huber_loss] delta 0 is not positive"),
                       Error);
  CHECK_THROWS_WITH_AS(smooth_l1_loss(x, zeros(), {.beta = -1}),
                       doctest::Contains("[smooth_l1_loss] beta -1 is negative"), Error);
  CHECK_THROWS_AS(mse_loss(constant({}, {0}), constant({}, {0})), ShapeError);
}
