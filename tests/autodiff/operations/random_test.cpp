// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tutti;

namespace {

constexpr std::int64_t kMany = 40'000;

/// Whether each number was drawn as often as its probability says, within 5 standard deviations.
void check_shares(const std::vector<std::int64_t>& drawn, const Values& probabilities) {
  const double n = static_cast<double>(drawn.size());
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    CAPTURE(i);
    const double p = probabilities[i];
    const auto count = static_cast<double>(std::count(drawn.begin(), drawn.end(), static_cast<std::int64_t>(i)));
    CHECK(std::abs(count - n * p) <= 5 * std::sqrt(n * p * (1 - p)));
  }
}

}  // namespace

TEST_CASE("bernoulli: shares, ends and dtypes") {
  Generator random(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor p(Array::full({kMany}, 0.25, dtype, test_device()));
    const Tensor drawn = bernoulli(p, random);
    CHECK(drawn.dtype() == dtype);
    const double ones = sum(cast(drawn, DType::f64)).item<double>();
    CHECK(std::abs(ones - 0.25 * kMany) < 5 * std::sqrt(kMany * 0.25 * 0.75));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(bernoulli(constant({0, 1, -1, 2, nan}, {5}), random).to_vector<double>() == Values{0, 1, 0, 1, 0});
  CHECK_FALSE(bernoulli(leaf({0.5}), random).requires_grad());
  CHECK_THROWS_AS(bernoulli(index({1}, {1}), random), DTypeError);
}

TEST_CASE("categorical: shares are those of softmax") {
  Generator random(2);
  const Values probabilities{0.5, 0.2, 0.05, 0.0, 0.25};
  Values logits;
  for (const double p : probabilities) logits.push_back(std::log(p) + 3);
  const Tensor rows = broadcast_to(constant(logits, {1, 5}), {kMany, 5});
  const Tensor drawn = categorical(rows, random);
  CHECK(drawn.shape() == Shape{kMany});
  CHECK(drawn.dtype() == DType::i64);
  check_shares(drawn.to_vector<std::int64_t>(), probabilities);
  check_shares(categorical(cast(rows, DType::f16), random).to_vector<std::int64_t>(), probabilities);
  CHECK(categorical(reshape(rows, {100, 400, 5}), random).shape() == Shape{100, 400});
  CHECK(categorical(constant({7}, {1}), random).item<std::int64_t>() == 0);
}

TEST_CASE("categorical: very rare classes are drawn too") {
  // e^-14 beside 1: 0.83 in a million. f32 numbers of 24 bits would never, or far too often, do.
  Generator random(3);
  std::int64_t rare = 0;
  for (int i = 0; i < 10; ++i) {
    const Tensor rows = broadcast_to(constant({0, -9}, {1, 2}), {100'000, 2});
    rare += sum(categorical(rows, random)).item<std::int64_t>();
  }
  const double expected = 1e6 * std::exp(-9) / (1 + std::exp(-9));  // 123
  CHECK(std::abs(static_cast<double>(rare) - expected) < 5 * std::sqrt(expected));
}

TEST_CASE("multinomial: draws with replacement, in proportion to weights") {
  Generator random(4);
  const Tensor weights = constant({1, 3, 0, 4, 0, 0, 2, 0}, {2, 4});
  const Tensor drawn = multinomial(weights, kMany, random);
  REQUIRE(drawn.shape() == Shape{2, kMany});
  const auto values = drawn.to_vector<std::int64_t>();
  check_shares({values.begin(), values.begin() + kMany}, {0.125, 0.375, 0, 0.5});
  check_shares({values.begin() + kMany, values.end()}, {0, 0, 1, 0});
  CHECK(multinomial(weights, 0, random).shape() == Shape{2, 0});
  CHECK_THROWS_AS(multinomial(weights, -1, random), ShapeError);
  CHECK_THROWS_AS(multinomial(index({1, 2}, {2}), 1, random), DTypeError);
  CHECK_THROWS_AS(multinomial(constant({}, {2, 0}), 1, random), ShapeError);
  CHECK_THROWS_AS(categorical(constant({1}, {}), random), ShapeError);
}

TEST_CASE("permutation: every number once, each order as likely") {
  Generator random(5);
  auto order = permutation(100, random, test_device()).to_vector<std::int64_t>();
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<std::int64_t>(i));
  CHECK(permutation(0, random).size() == 0);
  CHECK_THROWS_AS(permutation(-1, random), ShapeError);
  std::vector<std::int64_t> drawn;
  for (int i = 0; i < 12'000; ++i) {
    const auto three = random.permutation(3);
    drawn.push_back(three[0] * 2 + (three[1] > three[2] ? 1 : 0));
  }
  check_shares(drawn, Values(6, 1.0 / 6));
}

TEST_CASE("multinomial: negative and NaN weights are never drawn") {
  Generator random(6);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto drawn = multinomial(constant({0.9, -0.1, nan, 0.1}, {4}), kMany, random).to_vector<std::int64_t>();
  check_shares(drawn, {0.9, 0, 0, 0.1});
}
