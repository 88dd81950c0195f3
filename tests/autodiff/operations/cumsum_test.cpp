// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Whole = std::vector<std::int64_t>;

TEST_CASE("cumsum, cumprod: values along each axis") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(cumsum(x, 1).to_vector<double>() == Values{1, 3, 6, 4, 9, 15});
  CHECK(cumsum(x, 0).to_vector<double>() == Values{1, 2, 3, 5, 7, 9});
  CHECK(cumprod(x, -1).to_vector<double>() == Values{1, 2, 6, 4, 20, 120});
  CHECK(cumprod(x, 0).to_vector<double>() == Values{1, 2, 3, 4, 10, 18});
  CHECK(cumsum(x > 2, 1).to_vector<std::int64_t>() == Whole{0, 0, 1, 1, 2, 3});
  CHECK(cumprod(index({1, 2, 3, 4, 5}, {5}), 0).to_vector<std::int64_t>() == Whole{1, 2, 6, 24, 120});
  CHECK(cumsum(leaf({}, {0, 2}), 0).size() == 0);
  CHECK(cumprod(leaf({}, {0, 2}), 0).size() == 0);
  CHECK_THROWS_WITH_AS(cumprod(x, 2), doctest::Contains("[cumprod]"), ShapeError);
}

TEST_CASE("cumsum, cumprod: first and second derivatives") {
  for (const std::int64_t axis : {0, 1, -1}) {
    check_gradients([=](const Inputs& in) { return square(cumsum(in[0], axis)); }, {spread({2, 3}, 1)});
    check_gradients([=](const Inputs& in) { return cumprod(in[0], axis); }, {spread({3, 2}, 1)});
  }
  // Where elements are 0, too.
  check_gradients([](const Inputs& in) { return cumprod(in[0], 0); }, {leaf({2, 0, 3, 0, 5})});
}

TEST_CASE("prod: along any axes; gradients that never divide") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(prod(x).item<double>() == 720);
  CHECK(prod(x, {0}).to_vector<double>() == Values{4, 10, 18});
  CHECK(prod(x, {1}, true).shape() == Shape{2, 1});
  CHECK(prod(leaf({1, 2, 3, 4, 5, 6, 7})).item<double>() == 5040);
  CHECK(prod(index({3, -4}, {2})).item<std::int64_t>() == -12);
  CHECK(prod(leaf({}, {2, 0}), {1}).to_vector<double>() == Values{1, 1});
  check_gradients([](const Inputs& in) { return prod(in[0], {0}); }, {leaf({}, {0, 2})});
  for (const auto& axes : {std::vector<std::int64_t>{}, {0}, {-1}, {0, 2}})
    for (const bool keep : {false, true})
      check_gradients([&](const Inputs& in) { return prod(in[0], Axes(axes), keep); }, {spread({2, 3, 2}, 1)});
  for (const Values& zeros : {Values{2, 0, 3}, Values{0, 5, 0, 7}, Values{0, 0, 0}})
    check_gradients([](const Inputs& in) { return prod(in[0]); }, {leaf(zeros)});
}

TEST_CASE("any_true, all_true, count_nonzero") {
  const Tensor x = constant({0, 2, 0, 0, std::nan(""), 1}, {2, 3});
  CHECK(any_true(x, {0}).to_vector<bool>() == std::vector<bool>{false, true, true});
  CHECK(all_true(x, {1}).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(count_nonzero(x, {1}).to_vector<std::int64_t>() == Whole{1, 2});
  CHECK(count_nonzero(x).item<std::int64_t>() == 3);
  CHECK(any_true(x > 1).item<bool>());
  CHECK_FALSE(all_true(x > 1).item<bool>());
  CHECK(all_true(leaf({}, {0})).item<bool>());
  CHECK_FALSE(any_true(leaf({}, {0})).item<bool>());
}

TEST_CASE("cumprod: what is multiplied on the way may be beyond the type's range") {
  const auto check = [](const Values& values, DType dtype, const Values& expected) {
    const auto count = static_cast<std::int64_t>(values.size());
    const Tensor y = cumprod(Tensor(Array::from(values, {count}, test_device()).cast(dtype)), 0);
    CHECK(y.dtype() == dtype);
    const Values got = cast(y, DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-2));
  };
  check({1e-30, 1e30, 1e30, 1e-30}, DType::f32, {1e-30, 1, 1e30, 1});
  check({0, 1e30, 1e30, 1}, DType::f32, {0, 0, 0, 0});
  check({.01, 300, 300, 1}, DType::f16, {.01, 3, 900, 900});
  Values threes(300, 3);
  threes[0] = 0;
  check(threes, DType::f32, Values(300, 0));
}

TEST_CASE("cummax, cummin: the last of equals; NaN stays") {
  const double nan = std::nan("");
  const RunningExtremes most = cummax(constant({2, 2, 1, nan, 5, nan, 7}, {7}), 0);
  CHECK(most.indices.to_vector<std::int64_t>() == Whole{0, 1, 1, 3, 3, 5, 5});
  CHECK(most.values.to_vector<double>()[2] == 2);
  CHECK(std::isnan(most.values.to_vector<double>()[4]));
  CHECK(cummin(constant({2, 3, 2, 1}, {4}), 0).indices.to_vector<std::int64_t>() == Whole{0, 0, 2, 3});
  const Tensor x = spread({3, 7}, 1);
  for (const std::int64_t axis : {0, -1}) {
    check_gradients([=](const Inputs& in) { return square(cummax(in[0], axis).values); }, {x});
    check_gradients([=](const Inputs& in) { return square(cummin(in[0], axis).values); }, {x});
  }
  // Against the definition, along a line whose length is no power of two.
  Values drawn;
  for (int i = 0; i < 1000; ++i) drawn.push_back(i * 7919 % 257 - i / 10);
  const RunningExtremes least = cummin(leaf(drawn), 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0, best = 0; i < drawn.size(); ++i) {
    if (drawn[i] <= drawn[best]) best = i;
    wrong += least.indices.to_vector<std::int64_t>()[i] == static_cast<std::int64_t>(best) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("logcumsumexp: without overflow") {
  check_gradients([](const Inputs& in) { return square(logcumsumexp(in[0], 1)); }, {spread({2, 5}, 1)});
  const Values sums = logcumsumexp(constant({1000, 1000, -1000}, {3}), 0).to_vector<double>();
  CHECK(sums[0] == 1000);
  CHECK(sums[2] == doctest::Approx(1000 + std::log(2)));
}

TEST_CASE("cumsum, cumprod: a scalar stays one") {
  const Tensor x = leaf({3}, {});
  for (const std::int64_t axis : {0, -1}) {
    CHECK(cumsum(x, axis).shape() == Shape{});
    CHECK(cumprod(x, axis).item<double>() == 3);
    CHECK(cummax(x, axis).values.item<double>() == 3);
    CHECK(logcumsumexp(x, axis).item<double>() == 3);
  }
  check_gradients([](const Inputs& in) { return square(cumprod(cumsum(in[0], 0), 0)); }, {x});
  CHECK_THROWS_AS(cumsum(x, 1), ShapeError);
}

}  // namespace
}  // namespace tutti
