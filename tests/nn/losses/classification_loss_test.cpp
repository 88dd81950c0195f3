// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;
using tutti::testing::check_close;

namespace {

constexpr std::int64_t kIgnored = -7;

// Two images of 2 x 2 positions with 3 classes: [n, c, h, w].
constexpr std::size_t kImages = 2;
constexpr std::size_t kClasses = 3;
constexpr std::size_t kPositions = 4;
const Shape kShape{kImages, kClasses, 2, 2};
const Shape kTargetShape{kImages, 2, 2};
const std::vector<std::int64_t> kTargets{0, 2, kIgnored, 1, 2, 2, 1, kIgnored};
const Values kWeights{0.5, 2.0, 1.25};

/// log softmax over the classes at each position, by its definition.
Values log_softmax_of(const Values& x) {
  Values result(x.size());
  for (std::size_t image = 0; image < kImages; ++image)
    for (std::size_t position = 0; position < kPositions; ++position) {
      const auto at = [&](std::size_t c) { return (image * kClasses + c) * kPositions + position; };
      double sum = 0;
      for (std::size_t c = 0; c < kClasses; ++c) sum += std::exp(x[at(c)]);
      for (std::size_t c = 0; c < kClasses; ++c) result[at(c)] = x[at(c)] - std::log(sum);
    }
  return result;
}

/// What PyTorch's documentation says, one number after the other.
struct Expected {
  Values each;
  double weights = 0;

  Expected(const Values& log_p, const Values& weight, double smoothing) {
    for (std::size_t i = 0; i < kTargets.size(); ++i) {
      each.push_back(0);
      if (kTargets[i] == kIgnored) continue;
      const auto target = static_cast<std::size_t>(kTargets[i]);
      const auto at = [&](std::size_t c) {
        return log_p[(i / kPositions * kClasses + c) * kPositions + i % kPositions];
      };
      each.back() = -(1 - smoothing) * weight[target] * at(target);
      for (std::size_t c = 0; c < kClasses; ++c) each.back() -= smoothing / kClasses * weight[c] * at(c);
      weights += weight[target];
    }
  }
  double sum() const {
    double total = 0;
    for (const double x : each) total += x;
    return total;
  }
};

Tensor class_weights() { return constant(kWeights, {kClasses}); }

}  // namespace

TEST_CASE("cross_entropy: positions, ignored ones, weights and smoothing agree with the definition") {
  const Tensor x = spread(kShape, 3);
  const Tensor targets = index(kTargets, kTargetShape);
  for (const bool weighted : {false, true})
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      CAPTURE(weighted);
      CAPTURE(smoothing);
      const Expected expected(log_softmax_of(x.to_vector<double>()), weighted ? kWeights : Values(3, 1.0), smoothing);
      CrossEntropyOptions options{
          .weight = weighted ? class_weights() : Tensor(), .ignore_index = kIgnored, .label_smoothing = smoothing};
      CHECK(cross_entropy(x, targets, options).item<double>() ==
            doctest::Approx(expected.sum() / expected.weights).epsilon(1e-12));
      options.reduction = LossReduction::sum;
      CHECK(cross_entropy(x, targets, options).item<double>() == doctest::Approx(expected.sum()).epsilon(1e-12));
      options.reduction = LossReduction::none;
      CHECK(cross_entropy(x, targets, options).shape() == kTargetShape);
      check_close(cross_entropy(x, targets, options), expected.each);
      options.reduction = LossReduction::mean;
      check_gradients([&](const std::vector<Tensor>& in) { return cross_entropy(in[0], targets, options); }, {x});
    }
}

TEST_CASE("nll_loss of log_softmax is cross_entropy") {
  const Tensor x = spread(kShape, 4);
  const Tensor targets = index(kTargets, kTargetShape);
  const double found =
      nll_loss(log_softmax(x, 1), targets, {.weight = class_weights(), .ignore_index = kIgnored}).item<double>();
  const double expected =
      cross_entropy(x, targets, {.weight = class_weights(), .ignore_index = kIgnored}).item<double>();
  CHECK(found == doctest::Approx(expected).epsilon(1e-14));
  check_gradients([&](const std::vector<Tensor>& in) { return nll_loss(in[0], targets, {.ignore_index = kIgnored}); },
                  {x});
  CHECK_THROWS_WITH_AS(nll_loss(x, index({1}, {1})), doctest::Contains("[nll_loss] logits [2, 3, 2, 2]"), ShapeError);
}

TEST_CASE("cross_entropy: the class axis may be any") {
  const Tensor x = spread(kShape, 5);
  const Tensor targets = index({0, 2, 1, 1, 2, 2, 1, 0}, kTargetShape);
  const double expected = cross_entropy(x, targets).item<double>();
  const Tensor last = permute(x, {0, 2, 3, 1});
  CHECK(cross_entropy(last, targets, {.class_axis = -1}).item<double>() == doctest::Approx(expected).epsilon(1e-14));
  CHECK(cross_entropy(last, targets, {.class_axis = 3}).item<double>() == doctest::Approx(expected).epsilon(1e-14));
  const Tensor one = constant({1, 2, 0.5}, {3});
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(0.5);
  CHECK(cross_entropy(one, index({1}, {})).item<double>() == doctest::Approx(std::log(sum) - 2));
}

TEST_CASE("cross_entropy of probabilities agrees with the definition") {
  const Tensor x = spread(kShape, 6);
  const Tensor targets = softmax(spread(kShape, 7).detach(), 1);
  const Values log_p = log_softmax_of(x.to_vector<double>());
  const Values t = targets.to_vector<double>();
  for (const double smoothing : {0.0, 0.2}) {
    Values each;
    for (std::size_t i = 0; i < kImages * kPositions; ++i) {
      each.push_back(0);
      for (std::size_t c = 0; c < kClasses; ++c) {
        const std::size_t at = (i / kPositions * kClasses + c) * kPositions + i % kPositions;
        each.back() -= kWeights[c] * (t[at] * (1 - smoothing) + smoothing / kClasses) * log_p[at];
      }
    }
    CrossEntropyOptions options{
        .reduction = LossReduction::none, .weight = class_weights(), .label_smoothing = smoothing};
    check_close(cross_entropy(x, targets, options), each);
    double sum = 0;
    for (const double value : each) sum += value;
    options.reduction = LossReduction::mean;
    CHECK(cross_entropy(x, targets, options).item<double>() == doctest::Approx(sum / 8).epsilon(1e-12));
    check_gradients([&](const std::vector<Tensor>& in) { return cross_entropy(in[0], in[1], options); },
                    {x, Tensor(targets.array(), true)});
  }
}

TEST_CASE("cross_entropy: one-hot probabilities are class numbers") {
  const Tensor x = spread({4, 5}, 8);
  const Tensor numbers = index({3, 0, 4, 1}, {4});
  const Tensor hot = one_hot(numbers, 5, DType::f64);
  for (const double smoothing : {0.0, 0.3})
    CHECK(cross_entropy(x, hot, {.label_smoothing = smoothing}).item<double>() ==
          doctest::Approx(cross_entropy(x, numbers, {.label_smoothing = smoothing}).item<double>()).epsilon(1e-12));
}

TEST_CASE("cross_entropy: a class number that is repeated in the targets is told with its place in them") {
  const Tensor x = spread({2, 5, 3}, 8);
  const Tensor targets = broadcast_to(index({1, 9}, {2, 1}), {2, 3});
  const Tensor across = broadcast_to(index({1, 2, 9}, {3}), {2, 3});
  const auto loss = [&](const Tensor& numbers) { return cross_entropy(x, numbers).item<double>(); };
  CHECK_THROWS_WITH_AS(loss(targets), doctest::Contains(index_error("target 9 at [1, 0] is out of range")), ShapeError);
  CHECK_THROWS_WITH_AS(loss(across), doctest::Contains(index_error("target 9 at [0, 2] is out of range")), ShapeError);
}

TEST_CASE("cross_entropy and nll_loss: class numbers of any integer type") {
  const Tensor x = log_softmax(spread({4, 5}, 8), 1);
  const Tensor numbers = index({3, 0, 4, 1}, {4});
  const double expected = cross_entropy(x, numbers, {.ignore_index = 4}).item<double>();
  for (const DType dtype : {DType::u8, DType::i8, DType::i32}) {
    const Tensor targets = cast(numbers, dtype);
    CHECK(cross_entropy(x, targets, {.ignore_index = 4}).item<double>() == expected);
    CHECK(nll_loss(x, targets, {.ignore_index = 4}).item<double>() == doctest::Approx(expected).epsilon(1e-12));
  }
  CHECK_THROWS_WITH_AS(nll_loss(x, cast(numbers, DType::boolean)),
                       doctest::Contains("[nll_loss] targets [4] must be class numbers, integers"), DTypeError);
}

TEST_CASE("cross_entropy: ignored examples have no gradient, whatever their logits, and all ignored give NaN") {
  const Tensor x = leaf({1, 2, 1e30, -1e30}, {2, 2});
  backward(cross_entropy(x, index({1, kIgnored}, {2}), {.ignore_index = kIgnored}));
  const Values gradient = x.grad().to_vector<double>();
  CHECK(gradient[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(gradient[2] == 0);
  CHECK(gradient[3] == 0);
  const Tensor none = index({kIgnored, kIgnored}, {2});
  CHECK(std::isnan(cross_entropy(x, none, {.ignore_index = kIgnored}).item<double>()));
  CHECK(cross_entropy(x, none, {.reduction = LossReduction::sum, .ignore_index = kIgnored}).item<double>() == 0);
}

TEST_CASE("cross_entropy names what does not fit") {
  const Tensor x = spread({4, 5}, 8);
  const Tensor targets = index({3, 0, 4, 1}, {4});
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets, {.class_axis = 2}),
                       doctest::Contains("[cross_entropy] logits [4, 5] have no class axis 2"), ShapeError);
  CHECK_THROWS_WITH_AS(
      cross_entropy(x, index({1}, {1})),
      doctest::Contains("[cross_entropy] logits [4, 5] with classes along axis 1 need targets [4], got [1]"),
      ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets, {.weight = constant({1, 2}, {2})}),
                       doctest::Contains("[cross_entropy] weight [2] does not have one number for each of 5 classes"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, targets, {.label_smoothing = 1.5}),
                       doctest::Contains("[cross_entropy] label smoothing 1.5 is not in [0, 1]"), Error);
  CHECK_THROWS_AS(cross_entropy(x, softmax(x, 1), {.ignore_index = 1}), Error);
  CHECK_THROWS_WITH_AS(cross_entropy(x, one_hot(targets, 5, DType::i64)),
                       doctest::Contains("probabilities, which are floating, not i64"), DTypeError);
}

TEST_CASE("kl_div: values, reductions and gradients") {
  const Tensor input = log_softmax(spread({2, 3}, 9), 1).detach();
  const Values x = input.to_vector<double>();
  const Values t{0.2, 0.8, 0.0, 1.0, 0.0, 0.0};
  Values expected;
  for (std::size_t i = 0; i < t.size(); ++i) expected.push_back(t[i] > 0 ? t[i] * (std::log(t[i]) - x[i]) : 0);
  const Tensor target = constant(t, {2, 3});
  check_close(kl_div(input, target, {.reduction = LossReduction::none}), expected);
  double sum = 0;
  for (const double value : expected) sum += value;
  CHECK(kl_div(input, target).item<double>() == doctest::Approx(sum / 6));
  CHECK(kl_div(input, input, {.log_target = true}).item<double>() == 0);
  const Tensor other = softmax(spread({2, 3}, 10), 1).detach();
  CHECK(kl_div(input, log(other), {.log_target = true}).item<double>() ==
        doctest::Approx(kl_div(input, other).item<double>()).epsilon(1e-12));
  CHECK(std::isnan(kl_div(input, constant({0.2, 0.8, 0.0, 1.0, 0.0, -1.0}, {2, 3})).item<double>()));
  for (const bool log_target : {false, true})
    check_gradients([&](const std::vector<Tensor>& in) { return kl_div(in[0], in[1], {.log_target = log_target}); },
                    {spread({2, 3}, 1), spread({2, 3}, 2, true)});
  const Tensor leaf_target = leaf(t, {2, 3});
  backward(kl_div(input, leaf_target));
  for (const double g : leaf_target.grad().to_vector<double>()) CHECK(std::isfinite(g));
  CHECK_THROWS_WITH_AS(kl_div(input, constant(t, {6})),
                       doctest::Contains("[kl_div] input [2, 3] and target [6] differ in shape"), ShapeError);
}

TEST_CASE("nll_loss and kl_div of 16-bit operands are f32 under Autocast") {
  const Tensor probabilities = softmax(spread({2, 3}, 1)).cast(DType::bf16);
  const Tensor classes = index({0, 2}, {2});
  CHECK(kl_div(probabilities, probabilities, {.reduction = LossReduction::none}).dtype() == DType::bf16);
  const Autocast guard(DType::f16);
  CHECK(nll_loss(probabilities, classes, {.reduction = LossReduction::none}).dtype() == DType::f32);
  CHECK(kl_div(probabilities, probabilities, {.reduction = LossReduction::none}).dtype() == DType::f32);
}
