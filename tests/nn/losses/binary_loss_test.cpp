// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;
using tutti::testing::check_close;

namespace {

const Values kLogits{-2.5, 0.0, 1.5, 0.25, -0.75, 4.0};
const Values kTargets{0.0, 1.0, 0.25, 0.5, 1.0, 0.0};
const Values kWeights{1.0, 2.0, 0.5, 1.0, 3.0, 0.25};
const Values kPositive{3.0, 0.5, 2.0};

Values expected_losses(bool weighted, bool positive) {
  Values losses;
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-kLogits[i]));
    const double factor = positive ? kPositive[i % 3] : 1;
    const double loss = -(factor * kTargets[i] * std::log(p) + (1 - kTargets[i]) * std::log(1 - p));
    losses.push_back(loss * (weighted ? kWeights[i] : 1));
  }
  return losses;
}

double total(const Values& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum;
}

}  // namespace

TEST_CASE("binary_cross_entropy_with_logits: values, weights, reductions, gradients") {
  const Tensor x = leaf(kLogits, {2, 3});
  const Tensor t = leaf(kTargets, {2, 3});
  for (const bool weighted : {false, true})
    for (const bool positive : {false, true}) {
      BinaryLogitsOptions options{.weight = weighted ? constant(kWeights, {2, 3}) : Tensor(),
                                  .pos_weight = positive ? constant(kPositive, {3}) : Tensor()};
      const Values expected = expected_losses(weighted, positive);
      CHECK(binary_cross_entropy_with_logits(x, t, options).item<double>() == doctest::Approx(total(expected) / 6));
      options.reduction = LossReduction::sum;
      CHECK(binary_cross_entropy_with_logits(x, t, options).item<double>() == doctest::Approx(total(expected)));
      options.reduction = LossReduction::none;
      check_close(binary_cross_entropy_with_logits(x, t, options), expected);
      check_gradients(
          [&](const std::vector<Tensor>& in) { return binary_cross_entropy_with_logits(in[0], in[1], options); },
          {x, t});
    }
}

TEST_CASE("binary_cross_entropy_with_logits: the gradient is sigmoid(x) - t, at 0 and far out too") {
  const Tensor x(Array::from(std::vector<float>{0, 0, 200, -200, 200, -200}, {6}, test_device()), true);
  const Tensor t(Array::from(std::vector<float>{0, 1, 1, 0, 0, 1}, {6}, test_device()));
  const Tensor losses = binary_cross_entropy_with_logits(x, t, {.reduction = LossReduction::none});
  const auto values = losses.to_vector<float>();
  CHECK(values[0] == doctest::Approx(std::log(2.0)));
  CHECK(values[2] == doctest::Approx(0));
  CHECK(values[4] == doctest::Approx(200));
  CHECK(values[5] == doctest::Approx(200));
  backward(sum(losses));
  const std::vector<float> gradient = x.grad().to_vector<float>();
  CHECK(gradient == std::vector<float>{0.5F, -0.5F, 0, 0, 1, -1});
}

TEST_CASE("binary_cross_entropy: values, weights, gradients, and the bounds at 0 and 1") {
  Values p;
  for (const double x : kLogits) p.push_back(1 / (1 + std::exp(-x)));
  const Tensor x = leaf(p, {2, 3});
  const Tensor t = leaf(kTargets, {2, 3});
  const Tensor weight = constant(kWeights, {2, 3});
  check_close(binary_cross_entropy(x, t, {.reduction = LossReduction::none, .weight = weight}),
              expected_losses(true, false));
  CHECK(binary_cross_entropy(x, t).item<double>() == doctest::Approx(total(expected_losses(false, false)) / 6));
  check_gradients([&](const std::vector<Tensor>& in) { return binary_cross_entropy(in[0], in[1]); }, {x, t});

  const Tensor ends = leaf({0, 1, 0, 1});
  const Tensor losses = binary_cross_entropy(ends, constant({0, 1, 1, 0}, {4}), {.reduction = LossReduction::none});
  CHECK(losses.to_vector<double>() == Values{0, 0, 100, 100});
  backward(sum(losses));
  CHECK(ends.grad().to_vector<double>() == Values{0, 0, -1e12, 1e12});
}

TEST_CASE("binary losses name what does not fit") {
  const Tensor x = leaf(kLogits, {2, 3});
  CHECK_THROWS_WITH_AS(
      binary_cross_entropy_with_logits(x, constant(kTargets, {6})),
      doctest::Contains("[binary_cross_entropy_with_logits] logits [2, 3] and targets [6] differ in shape"),
      ShapeError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(x, x, {.weight = constant({1, 1}, {2, 1, 1})}),
                       doctest::Contains("[binary_cross_entropy] weight [2, 1, 1] cannot be broadcast to [2, 3]"),
                       ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(x, index({0, 1, 0, 1, 0, 1}, {2, 3})), DTypeError);
  CHECK_THROWS_AS(binary_cross_entropy(constant({}, {0}), constant({}, {0})), ShapeError);
}

TEST_CASE("binary_cross_entropy: its bounded logarithms are no anomaly") {
  const Tensor p = leaf({0, 1, 0.5});
  const Tensor t = leaf({0, 1, 1});
  const DetectAnomaly detect;
  const Tensor loss = binary_cross_entropy(p, t);
  CHECK(loss.item<double>() == doctest::Approx(std::log(2.0) / 3));
  backward(loss);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(leaf({-1}), constant({1}, {1})),
                       doctest::Contains("binary_cross_entropy made a NaN"), AutodiffError);
}
