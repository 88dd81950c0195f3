// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Axes = std::initializer_list<std::int64_t>;

// keep_dims, descending and largest stand behind the correction or the axis: a bool in their place would be a number.
template <class T> constexpr bool takes_bool =
    requires(const Tensor& x, T b) { var(x, 0, b); } || requires(const Tensor& x, T b) { stddev(x, 0, b); } ||
    requires(const Tensor& x, T b) { argmax(x, b); } || requires(const Tensor& x, T b) { argmin(x, b); } ||
    requires(const Tensor& x, T b) { sort(x, b); } || requires(const Tensor& x, T b) { argsort(x, b); } ||
    requires(const Tensor& x, T b) { topk(x, 1, b); };
static_assert(!takes_bool<bool>);
static_assert(takes_bool<int>);

TEST_CASE("sum, mean: over every choice of axes") {
  const Tensor x = spread({2, 3, 4}, 1);
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}, Axes{-1}, Axes{0, 1}, Axes{0, 2}, Axes{-2, -1}, Axes{0, 1, 2}})
    for (const bool keep : {false, true}) {
      check_gradients([&](const Inputs& in) { return sum(in[0], axes, keep); }, {x});
      check_gradients([&](const Inputs& in) { return mean(in[0], axes, keep); }, {x});
      check_gradients([&](const Inputs& in) { return in[0] * sum(in[0], axes, true); }, {x});
    }
}

TEST_CASE("sum, mean: values and shapes") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(sum(x).item<double>() == 21);
  CHECK(sum(x, {0}).to_vector<double>() == Values{5, 7, 9});
  CHECK(mean(x, {1}).to_vector<double>() == Values{2, 5});
  CHECK(mean(x, {1}, true).shape() == Shape{2, 1});
  CHECK(mean(index({1, 2}, {2})).item<float>() == 1.5f);
  CHECK_THROWS_WITH_AS(sum(x, {2}), doctest::Contains("sum"), ShapeError);
}

TEST_CASE("sum, prod, cumsum, cumprod: of integers and bool are i64") {
  const auto value = [](const Tensor& total) { return total.reshape({-1})[-1].item<std::int64_t>(); };
  for (const DType dtype : {DType::i8, DType::u8, DType::i32, DType::i64}) {
    CAPTURE(to_string(dtype));
    const Tensor x = cast(index({100, 100, 100, 100, 100}, {5}), dtype);
    for (const Tensor& total : {sum(x), prod(x), cumsum(x, 0), cumprod(x, 0)}) CHECK(total.dtype() == DType::i64);
    CHECK(value(sum(x)) == 500);
    CHECK(value(cumsum(x, 0)) == 500);
    CHECK(value(prod(x)) == 10'000'000'000);
    CHECK(value(cumprod(x, 0)) == 10'000'000'000);
    CHECK(prod(cast(index({}, {0}), dtype)).dtype() == DType::i64);
  }
  const Tensor mask = index({1, 2, 3}, {3}) != 2;
  CHECK(value(sum(mask)) == 2);
  CHECK(value(mask.sum(0, true)) == 2);
  CHECK(value(prod(mask)) == 0);
  CHECK(value(cumprod(mask, 0)) == 0);
}

TEST_CASE("sum: of nothing is 0, with a gradient of no elements") {
  check_gradients([](const Inputs& in) { return sum(in[0], {0}); }, {leaf({}, {0, 2})});
  CHECK(sum(leaf({}, {0, 2}), {0}).to_vector<double>() == Values{0, 0});
}

TEST_CASE("max: along each axis; equals share nothing") {
  const Tensor x = spread({3, 4}, 2);
  for (const std::int64_t axis : {0, 1, -1})
    for (const bool keep : {false, true})
      check_gradients([&](const Inputs& in) { return max(in[0], axis, keep); }, {x});
  const Tensor equal = leaf({7, 7, 1, 2, 9, 9}, {2, 3});
  backward(sum(max(equal, 1)));
  CHECK(equal.grad().to_vector<double>() == Values{1, 0, 0, 0, 1, 0});
}

TEST_CASE("argmax: i64, without a gradient") {
  const Tensor x = leaf({1, 5, 2, 8, 3, 8}, {2, 3});
  CHECK(argmax(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(argmax(x, 0, true).shape() == Shape{1, 3});
  CHECK_FALSE(argmax(x, 1).requires_grad());
}

TEST_CASE("max, min: over any axes; the first of equals gets the gradient") {
  const Tensor x = spread({2, 3, 4}, 3);
  check_gradients([](const std::vector<Tensor>& in) { return max(in[0]); }, {x});
  check_gradients([](const std::vector<Tensor>& in) { return min(in[0], {0, 2}); }, {x});
  check_gradients([](const std::vector<Tensor>& in) { return max(in[0], {-1, 1}, true); }, {x});
  const Tensor recorded = max(x, {0, 2}, true);
  CHECK(recorded.shape() == Shape{1, 3, 1});
  CHECK(recorded.to_vector<double>() == max(x.detach(), {0, 2}, true).to_vector<double>());
  const Tensor equal = leaf({2, 5, 5, 1});
  backward(max(equal) * 3 + min(equal));
  CHECK(equal.grad().to_vector<double>() == Values{0, 3, 0, 1});
  CHECK_THROWS_AS(max(leaf({})), ShapeError);
}

TEST_CASE("argmin, argmax: the first of equals") {
  const Tensor x = constant({3, 1, 1, 5, 5, 2}, {2, 3});
  CHECK(argmin(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(argmax(x, 0, true).shape() == Shape{1, 3});
}

TEST_CASE("argmax, argmin: of all elements where no axis is given") {
  const Tensor x = leaf({3, 1, 1, 5, 5, 2}, {2, 3});
  CHECK(argmax(x).shape() == Shape{});
  CHECK(argmax(x).item<std::int64_t>() == 3);
  CHECK(argmin(x).item<std::int64_t>() == 1);
  CHECK(argmax(transpose(x)).item<std::int64_t>() == 1);
  CHECK(argmax(constant({7}, {})).item<std::int64_t>() == 0);
  CHECK_FALSE(argmax(x).requires_grad());
  CHECK_THROWS_WITH_AS(argmin(leaf({})), doctest::Contains("[argmin]"), ShapeError);
}

TEST_CASE("max, min, maximum, minimum: of bools") {
  using Bools = std::vector<bool>;
  const Tensor x = index({1, 0, 1, 0, 0, 0}, {2, 3}) == 1;
  CHECK(max(x, 1).to_vector<bool>() == Bools{true, false});
  CHECK(min(x, 0).to_vector<bool>() == Bools{false, false, false});
  CHECK(x.max().item<bool>());
  CHECK(max(x, {0, 1}, true).shape() == Shape{1, 1});
  CHECK_THROWS_WITH_AS(max(index({}, {0}) == 1), doctest::Contains("[max]"), ShapeError);
  CHECK(maximum(x[0], x[1]).to_vector<bool>() == Bools{true, false, true});
  CHECK(minimum(x[0], true).to_vector<bool>() == Bools{true, false, true});
  CHECK(minimum(x[0], x[1]).to_vector<bool>() == Bools{false, false, false});
  CHECK(maximum(x[0], 2).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 2, 2});
}

TEST_CASE("var, stddev, norm, logsumexp: against their definitions") {
  const Tensor x = constant({1, 2, 4, 9}, {4});
  CHECK(var(x).item<double>() == doctest::Approx(38.0 / 3));
  CHECK(var(x, {}, 0).item<double>() == doctest::Approx(9.5));
  const Tensor two(Array::arange(2, DType::f64, test_device()));
  CHECK(std::isnan(var(two.slice(0, 0, 0)).item<double>()));
  CHECK(std::isnan(stddev(two.slice(0, 0, 1)).item<double>()));
  CHECK(var(two, {}, 3).item<double>() == std::numeric_limits<double>::infinity());
  CHECK(stddev(x).item<double>() == doctest::Approx(std::sqrt(38.0 / 3)));
  CHECK(norm(constant({3, 4}, {2})).item<double>() == doctest::Approx(5));
  CHECK(logsumexp(constant({1000, 1000}, {2})).item<double>() == doctest::Approx(1000 + std::log(2)));
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(logsumexp(constant({-infinity, -infinity}, {2})).item<double>() == -infinity);
  CHECK(logsumexp(constant({}, {2, 0}), 1).to_vector<double>() == Values{-infinity, -infinity});
  CHECK(logsumexp(constant({}, {2, 0}), 0).shape() == Shape{0});
  CHECK(logsumexp(constant({1, infinity}, {2})).item<double>() == infinity);
  const Tensor y = spread({2, 3, 2}, 4);
  check_gradients([](const std::vector<Tensor>& in) { return var(in[0], {0, 2}); }, {y});
  check_gradients([](const std::vector<Tensor>& in) { return stddev(in[0], -2, 0, true); }, {y});
  check_gradients([](const std::vector<Tensor>& in) { return norm(in[0], 1); }, {y});
  check_gradients([](const std::vector<Tensor>& in) { return logsumexp(in[0], {0, 1}, true); }, {y});
  const Tensor zero = leaf({0, 0});
  backward(norm(zero));
  CHECK(zero.grad().to_vector<double>() == Values{0, 0});
}

TEST_CASE("stddev: no spread has no slope") {
  const Tensor equal = leaf({2, 2, 2});
  backward(stddev(equal));
  CHECK(equal.grad().to_vector<double>() == Values{0, 0, 0});
}

TEST_CASE("prod: the same value whether or not a gradient is recorded, and finite gradients") {
  const auto made = [](const Values& values, DType dtype, bool recorded) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor(Array::from(values, {count}, test_device()).cast(dtype), recorded);
  };
  const auto check = [&](const Values& values, DType dtype, double expected) {
    const Tensor x = made(values, dtype, true);
    const Tensor y = prod(x);
    CHECK(cast(y, DType::f64).item<double>() == doctest::Approx(expected).epsilon(1e-2));
    CHECK(cast(y, DType::f64).item<double>() == cast(prod(made(values, dtype, false)), DType::f64).item<double>());
    backward(y);
    return cast(x.grad(), DType::f64).to_vector<double>();
  };
  const Values of_long = check({1e30, 1e-30, 1e30, 1e-30}, DType::f32, 1);
  CHECK(of_long[0] == doctest::Approx(1e-30).epsilon(1e-5));
  CHECK(of_long[1] == doctest::Approx(1e30).epsilon(1e-5));
  CHECK(check({0, 1e20, 1, 1e10}, DType::f32, 0)[0] == doctest::Approx(1e30));
  CHECK(check({300, .001, 300, .001}, DType::f16, .09)[1] == doctest::Approx(90).epsilon(1e-2));
  check(Values(64, 1.01), DType::bf16,
        cast(prod(made(Values(64, 1.01), DType::bf16, false)), DType::f64).item<double>());
}

TEST_CASE("prod: derivatives where the reduced axes are not the last") {
  for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 2}, Axes{2, 1}, Axes{}})
    check_gradients([&](const Inputs& in) { return prod(in[0], axes); }, {spread({2, 3, 3}, 1)});
}

}  // namespace
}  // namespace tutti
