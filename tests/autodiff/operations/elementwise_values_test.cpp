// SPDX-License-Identifier: Apache-2.0
// What the lists cannot say of elementwise operations: special values, dtypes, corners, and those that are composed.
#include <tutti/autodiff/operations/elementwise_operations.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Whole = std::vector<std::int64_t>;

const double kNan = std::nan("");
constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Equal, or both NaN.
void check_values(const Tensor& found, const Values& expected) {
  const Values values = found.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(expected[i]))
      CHECK(std::isnan(values[i]));
    else
      CHECK((values[i] == expected[i] || values[i] == doctest::Approx(expected[i]).epsilon(1e-12)));
  }
}

/// dL/dx of the sum, at numbers.
Tensor slope(const std::function<Tensor(const Tensor&)>& f, const Values& at) {
  const Tensor x = leaf(at);
  return grad(sum(f(x)), std::vector{x})[0];
}
Tensor second_slope(const std::function<Tensor(const Tensor&)>& f, const Values& at) {
  const Tensor x = leaf(at);
  const std::vector<Tensor> leaves{x};
  return grad(sum(grad(sum(f(x)), leaves, {.create_graph = true})[0]), leaves)[0];
}

TEST_CASE("pow: special values, and gradients where powers have none") {
  check_values(pow(leaf({0, -2, 4, kInfinity, -1}), leaf({0, 3, 0.5, -1, kInfinity})), {1, -8, 2, 0, 1});
  check_values(pow(leaf({-2}), leaf({0.5})), {kNan});
  check_values(pow(leaf({1, 2, 3}), 2), {1, 4, 9});
  check_values(pow(2.0, leaf({-1, 0.5, 3})), {0.5, std::sqrt(2.0), 8});
  check_values(slope([](const Tensor& x) { return pow(x, 0.0); }, {0, 2}), {0, 0});
  check_values(slope([](const Tensor& x) { return pow(x, 1.0); }, {0, -2}), {1, 1});
  check_values(slope([](const Tensor& x) { return pow(x, 3.0); }, {0, -2}), {0, 12});
  check_values(slope([](const Tensor& x) { return pow(x, 0.5); }, {0}), {kInfinity});
  check_values(slope([](const Tensor& x) { return pow(0.0, x); }, {0, 2}), {0, 0});
  check_values(slope([](const Tensor& x) { return pow(-2.0, x); }, {2}), {kNan});
  check_values(second_slope([](const Tensor& x) { return pow(x, 2.0); }, {0, -3}), {2, 2});
  check_values(second_slope([](const Tensor& x) { return pow(x, 3.0); }, {0, -3}), {0, -18});
  check_values(second_slope([](const Tensor& x) { return reciprocal(x); }, {0, -0.0, 2}),
               {kInfinity, -kInfinity, 0.25});
}

TEST_CASE("pow: integers") {
  const Tensor base = index({3, -2, 2, -1, 1, 0, 5}, {7});
  const Tensor exponent = index({4, 3, -1, -3, -5, 0, 0}, {7});
  CHECK(pow(base, exponent).to_vector<std::int64_t>() == Whole{81, -8, 0, -1, 1, 1, 1});
  CHECK(pow(index({3}, {1}), 2).to_vector<std::int64_t>() == Whole{9});
  CHECK(pow(index({10}, {1}), index({19}, {1})).to_vector<std::int64_t>() ==
        Whole{static_cast<std::int64_t>(10000000000000000000ULL)});
  CHECK(pow(index({4}, {1}), 0.5).dtype() == DType::f32);
  CHECK(pow(index({4}, {1}), 2.0).dtype() == DType::f32);
}

TEST_CASE("floor_divide rounds down what was not rounded before, as Python's //") {
  check_values(floor_divide(leaf({7, -7, 7, -7, 6, 1, 5.5, -1}), leaf({2, 2, -2, -2, 3, 0.1, -1, kInfinity})),
               {3, -4, -4, 3, 2, 9, -6, -1});
  check_values(floor_divide(leaf({1, -1, 0, kInfinity, kNan}), leaf({0, 0, 0, 2, 1})),
               {kInfinity, -kInfinity, kNan, kNan, kNan});
  CHECK(std::signbit(floor_divide(leaf({-0.0}), 2).to_vector<double>()[0]));
  CHECK(floor_divide(index({7, -7}, {2}), 2).to_vector<std::int64_t>() == Whole{3, -4});
  CHECK(floor_divide(index({7, -7}, {2}), 2.0).dtype() == DType::f32);
  const Tensor x = leaf({7.5, -3});
  const Tensor y = leaf({2});
  backward(sum(floor_divide(x, y) + x));
  CHECK(x.grad().to_vector<double>() == Values{1, 1});
  CHECK(y.grad().to_vector<double>() == Values{0});
}

TEST_CASE("remainder has the divisor's sign, fmod the dividend's") {
  const Tensor a = leaf({7, -7, 7, -7, 6, -6, 5, 5.5});
  const Tensor b = leaf({3, 3, -3, -3, 3, 3, 0, kInfinity});
  check_values(a % b, {1, 2, -2, -1, 0, 0, kNan, 5.5});
  check_values(fmod(a, b), {1, -1, 1, -1, 0, 0, kNan, 5.5});
  const Tensor i = index({7, -7, 7, -7, 6, 5, std::numeric_limits<std::int64_t>::lowest()}, {7});
  const Tensor j = index({3, 3, -3, -3, 3, 0, -1}, {7});
  CHECK((i % j).to_vector<std::int64_t>() == Whole{1, 2, -2, -1, 0, 0, 0});
  CHECK(fmod(i, j).to_vector<std::int64_t>() == Whole{1, -1, 1, -1, 0, 0, 0});
  CHECK((index({-1}, {1}) % 3).to_vector<std::int64_t>() == Whole{2});
  check_values(leaf({-0.5}) % 2, {1.5});
}

TEST_CASE("fmod, remainder: the divisor's gradient is the whole quotient, where a / b is rounded up to the next, too") {
  const auto slopes = [](Tensor (*operation)(const Tensor&, const Tensor&), const Values& a, const Values& b) {
    const Tensor x = leaf(a);
    const Tensor y = leaf(b);
    backward(sum(operation(x.cast(DType::f32), y.cast(DType::f32))));
    return y.grad().to_vector<double>();
  };
  const auto remainders = [](const Tensor& a, const Tensor& b) { return a % b; };
  const auto fmods = [](const Tensor& a, const Tensor& b) { return fmod(a, b); };
  CHECK(slopes(fmods, {1, -1, 1, 7, -7, 7}, {0.1, 0.1, -0.1, 3, 3, -3}) == Values{-9, 9, 9, -2, 2, 2});
  CHECK(slopes(remainders, {1, -1, 1, 7, -7, 7}, {0.1, 0.1, -0.1, 3, 3, -3}) == Values{-9, 10, 10, -2, 3, 3});
}

TEST_CASE("log2, log10: large gradients of large numbers do not overflow on the way") {
  const auto slope = [](Tensor (*operation)(const Tensor&)) {
    const Tensor x = tensor({4}, {.dtype = DType::f32, .device = test_device(), .requires_grad = true});
    backward(sum(operation(x) * 3e38));
    return x.grad().item();
  };
  CHECK(slope([](const Tensor& x) { return log2(x); }) == doctest::Approx(3e38 / 4 / 0.6931471805599453));
  CHECK(slope([](const Tensor& x) { return log10(x); }) == doctest::Approx(3e38 / 4 / 2.302585092994046));
}

TEST_CASE("steps: halves to even, integers as they are, gradients of 0") {
  const Values x{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.75, kNan, kInfinity};
  check_values(round(leaf(x)), {-2, -2, 0, 0, 2, 2, 3, kNan, kInfinity});
  check_values(floor(leaf(x)), {-3, -2, -1, 0, 1, 2, 2, kNan, kInfinity});
  check_values(ceil(leaf(x)), {-2, -1, 0, 1, 2, 3, 3, kNan, kInfinity});
  check_values(trunc(leaf(x)), {-2, -1, 0, 0, 1, 2, 2, kNan, kInfinity});
  check_values(sign(leaf({-3, 0, 5, kNan})), {-1, 0, 1, kNan});
  CHECK(sign(index({-3, 0, 5}, {3})).to_vector<std::int64_t>() == Whole{-1, 0, 1});
  CHECK(round(index({7}, {1})).dtype() == DType::i64);
  check_values(slope([](const Tensor& t) { return floor(t) * kInfinity; }, {1.5, 2}), {0, 0});
  check_values(slope([](const Tensor& t) { return sign(t) + t; }, {1.5, 0}), {1, 1});
}

TEST_CASE("clip: bounds, and the gradient at them") {
  check_values(clip(leaf({-2, 0.25, 3, kNan}), -1, 1), {-1, 0.25, 1, kNan});
  check_values(clip(leaf({-2, 3}), -kInfinity, 1), {-2, 1});
  check_values(clip(leaf({-2, 3}), 2, 1), {1, 1});  // the upper one is the last
  check_values(slope([](const Tensor& x) { return clip(x, -1, 1); }, {-2, -1, 0, 1, 3}), {0, 1, 1, 1, 0});
  check_values(slope([](const Tensor& x) { return hard_tanh(x); }, {-2, -1, 0, 1, 3}), {0, 0, 1, 0, 0});
  const Tensor whole = clip(index({-4, 2, 9}, {3}), 0, 5);
  CHECK(whole.to_vector<std::int64_t>() == Whole{0, 2, 5});
  CHECK(clip(index({-4, 2, 9}, {3}), 0.5, 5).dtype() == DType::f32);
  const Tensor bytes(Array::full({1}, 7, DType::u8, test_device()));
  CHECK_THROWS_WITH_AS(clip(bytes, -5, 200), doctest::Contains("[clip] -5 is no u8"), DTypeError);
  CHECK_THROWS_WITH_AS(clip(bytes, 0, 300), doctest::Contains("[clip] 300 is no u8"), DTypeError);
  CHECK(clip(bytes, 9, kInfinity).item<int>() == 9);
  CHECK(clip(bytes, -kInfinity, 3).item<int>() == 3);
}

TEST_CASE("clip: between tensors, with the gradient to what was taken") {
  const Tensor x = leaf({-3, 0, 1, 5}, {2, 2});
  const Tensor low = leaf({-1, 0}, {2});
  const Tensor high = leaf({1, 4}, {2, 1});
  const Tensor y = clip(x, low, high);
  CHECK(y.to_vector<double>() == Values{-1, 0, 1, 4});
  backward(sum(y * constant({1, 10, 100, 1000}, {2, 2})));
  CHECK(x.grad().to_vector<double>() == Values{0, 10, 100, 0});
  CHECK(low.grad().to_vector<double>() == Values{1, 0});
  CHECK(high.grad().to_vector<double>() == Values{0, 1000});
  CHECK(clip(x, Tensor(), high).to_vector<double>() == Values{-3, 0, 1, 4});
  CHECK(clip(x, low, Tensor()).to_vector<double>() == Values{-1, 0, 1, 5});
  CHECK(clip(x, low, 2).to_vector<double>() == Values{-1, 0, 1, 2});
  CHECK(clip(x, 0.5, high).to_vector<double>() == Values{0.5, 0.5, 1, 4});
  CHECK(clip(x, constant({9}, {1}), constant({2}, {1})).to_vector<double>() == Values{2, 2, 2, 2});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(clip(x, constant({nan}, {1}), constant({nan}, {1})).to_vector<double>() == x.to_vector<double>());
  CHECK(std::isnan(clip(constant({nan}, {1}), low, high)[{0, 0}].item()));
  CHECK(clip(index({1, 9}, {2}), index({2}, {}), Tensor(4)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{2, 4});
  CHECK(clip(index({1, 9}, {2}), Tensor(0.5), Tensor(2.5)).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(clip(x, constant({1, 2, 3}, {3}), high), doctest::Contains("[clip]"), ShapeError);
  check_gradients([](const std::vector<Tensor>& in) { return clip(in[0], in[1], in[2]); },
                  {spread({3, 4}, 1), leaf({-0.3}, {1}), leaf({0.4}, {1})});
}

TEST_CASE("bits of integers and bools, and logic of anything") {
  const Tensor a = index({12, -1, 5}, {3});
  const Tensor b = index({10, 7, 0}, {3});
  CHECK((a & b).to_vector<std::int64_t>() == Whole{8, 7, 0});
  CHECK((a | b).to_vector<std::int64_t>() == Whole{14, -1, 5});
  CHECK((a ^ b).to_vector<std::int64_t>() == Whole{6, -8, 5});
  CHECK((~a).to_vector<std::int64_t>() == Whole{-13, 0, -6});
  CHECK((a & 4).to_vector<std::int64_t>() == Whole{4, 4, 4});
  CHECK((~cast(index({0, 255, 5}, {3}), DType::u8)).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{255, 0, 250});
  const Tensor p = b > 5;
  CHECK(p.to_vector<bool>() == std::vector<bool>{true, true, false});
  CHECK((~p).to_vector<bool>() == std::vector<bool>{false, false, true});
  CHECK((p & (a > 0)).to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK((p ^ true).to_vector<bool>() == std::vector<bool>{false, false, true});
  const Tensor x = leaf({0, 2, kNan});
  CHECK(logical_and(x, p).to_vector<bool>() == std::vector<bool>{false, true, false});
  CHECK(logical_or(x, p).to_vector<bool>() == std::vector<bool>{true, true, true});
  CHECK(logical_xor(x, p).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(logical_not(x).to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK_THROWS_WITH_AS(x & x, doctest::Contains("bitwise_and"), DTypeError);
}

TEST_CASE("literals beside functions: atan2, logaddexp and logic, on any device") {
  const Tensor x(Array::from(std::vector<double>{0, -2, kNan}, {3}, test_device(1)), true);
  using Bools = std::vector<bool>;
  CHECK(logical_and(x, 3).to_vector<bool>() == Bools{false, true, true});
  CHECK(logical_and(0.0, x).to_vector<bool>() == Bools{false, false, false});
  CHECK(logical_or(x, kNan).to_vector<bool>() == Bools{true, true, true});
  CHECK(logical_or(false, x > 0).to_vector<bool>() == Bools{false, false, false});
  CHECK(logical_xor(x, true).to_vector<bool>() == Bools{true, false, false});
  for (const Tensor& mask : {logical_and(x, 3), logical_or(x > 0, true)}) {
    CHECK(mask.device() == test_device(1));
    CHECK(mask.dtype() == DType::boolean);
  }
  check_values(slope([](const Tensor& t) { return atan2(t, 2); }, {0, 2}), {0.5, 0.25});
  check_values(slope([](const Tensor& t) { return atan2(2, t); }, {0, 2}), {-0.5, -0.25});
  check_values(slope([](const Tensor& t) { return logaddexp(t, 0); }, {0}), {0.5});
  CHECK(logaddexp(1, index({1}, {1})).dtype() == DType::f32);
}

TEST_CASE("what is NaN, infinite or finite, and without it") {
  const Tensor x = leaf({1, kNan, kInfinity, -kInfinity});
  CHECK(isnan(x).to_vector<bool>() == std::vector<bool>{false, true, false, false});
  CHECK(isinf(x).to_vector<bool>() == std::vector<bool>{false, false, true, true});
  CHECK(isfinite(x).to_vector<bool>() == std::vector<bool>{true, false, false, false});
  CHECK(isinf(index({3}, {1})).to_vector<bool>() == std::vector<bool>{false});
  CHECK(isfinite(index({3}, {1})).to_vector<bool>() == std::vector<bool>{true});
  constexpr double kLargest = std::numeric_limits<double>::max();
  check_values(nan_to_num(x, 7), {1, 7, kLargest, -kLargest});
  check_values(nan_to_num(x, 0, 5, -5), {1, 0, 5, -5});
  check_values(slope([](const Tensor& t) { return nan_to_num(t) * 3; }, {1, kNan, kInfinity}), {3, 0, 0});
}

TEST_CASE("logaddexp, atan2 and erfinv at their ends") {
  const Values a{0, kInfinity, -kInfinity, kInfinity, 1000, kNan};
  const Values b{0, kInfinity, -kInfinity, -kInfinity, -1000, 0};
  check_values(logaddexp(leaf(a), leaf(b)), {std::log(2.0), kInfinity, -kInfinity, kInfinity, 1000, kNan});
  const Tensor x = leaf({0, kInfinity, -kInfinity, 1000});
  const std::vector<Tensor> leaves{x};
  const Tensor first =
      grad(sum(logaddexp(x, leaf({0, kInfinity, -kInfinity, -1000}))), leaves, {.create_graph = true})[0];
  check_values(first, {0.5, 0.5, 0.5, 1});
  check_values(grad(sum(first), leaves)[0], {0.25, 0, 0, 0});
  check_values(atan2(leaf({1, 1, -1, 0}), leaf({1, -1, -1, -1})), {kPi / 4, 3 * kPi / 4, -3 * kPi / 4, kPi});
  check_values(slope([](const Tensor& t) { return atan2(t, t); }, {0, 2}), {0, 0});
  check_values(erfinv(leaf({-1, 0, 1, 1.5, kNan})), {-kInfinity, 0, kInfinity, kNan, kNan});
  const Values p{-0.999999, -0.9, -1e-12, 0.3, 0.86, 0.99, 1 - 1e-12};
  check_values(erf(erfinv(leaf(p))), p);
}

TEST_CASE("composed operations: values") {
  check_values(reciprocal(leaf({4, -0.5, 0})), {0.25, -2, kInfinity});
  check_values(lerp(leaf({1, 2}), leaf({3, 6}), 0.25), {1.5, 3});
  check_values(maximum(leaf({-1, 2}), 0), {0, 2});
  check_values(relu6(leaf({-1, 3, 9, kNan})), {0, 3, 6, kNan});
  check_values(prelu(leaf({-2, 3, -4, 5}, {2, 2}), leaf({0.5, 7})), {-1, 3, -2, 5});
  check_values(mish(leaf({0, 1})), {0, std::tanh(std::log1p(std::exp(1.0)))});
  check_values(elu(leaf({-1, 2}), 0.5), {0.5 * std::expm1(-1.0), 2});
  check_values(celu(leaf({-1, 2}), 0.5), {0.5 * std::expm1(-2.0), 2});
  check_values(selu(leaf({1, -1})), {1.0507009873554805, 1.0507009873554805 * 1.6732632423543772 * std::expm1(-1.0)});
  check_values(softsign(leaf({-3, 1})), {-0.75, 0.5});
  check_values(softplus(leaf({-1000, 0, 1000})), {0, std::log(2.0), 1000});
  check_values(softplus(leaf({1}), 2), {std::log1p(std::exp(2.0)) / 2});
  check_values(log_sigmoid(leaf({-1000, 0, 1000})), {-1000, -std::log(2.0), 0});
  check_values(hard_sigmoid(leaf({-4, -3, 0, 1.5, 4})), {0, 0, 0.5, 0.75, 1});
  check_values(hard_swish(leaf({-kInfinity, -4, -1, 0, 3, 4, kInfinity, kNan})),
               {0, 0, -1.0 / 3, 0, 3, 4, kInfinity, kNan});
  check_values(slope([](const Tensor& x) { return hard_swish(x); }, {-kInfinity, kInfinity}), {0, 1});
  check_values(second_slope([](const Tensor& x) { return hard_swish(x); }, {-kInfinity, kInfinity}), {0, 0});
  check_values(hard_shrink(leaf({-1, 0.5, 0.25, 2})), {-1, 0, 0, 2});
  check_values(soft_shrink(leaf({-1, 0.5, 0.25, 2})), {-0.5, 0, 0, 1.5});
  check_values(threshold(leaf({1, 2, 3}), 2, -7), {-7, -7, 3});
}

TEST_CASE("prelu: a slope of one axis is of channels, others are broadcast") {
  const Tensor x = leaf({-1, -2, -3, -4, -5, -6, -7, -8}, {1, 2, 2, 2});
  const Values of_channels{-10, -20, -30, -40, -500, -600, -700, -800};
  const Values of_last_axis{-10, -200, -30, -400, -50, -600, -70, -800};
  check_values(prelu(x, leaf({10, 100})), of_channels);
  check_values(prelu(x, leaf({10, 100}, {2, 1, 1})), of_channels);
  check_values(prelu(x, leaf({10, 100}, {1, 2})), of_last_axis);
  check_values(prelu(x, leaf({10})), {-10, -20, -30, -40, -50, -60, -70, -80});
  check_values(prelu(x, Tensor(10)), {-10, -20, -30, -40, -50, -60, -70, -80});
  check_values(prelu(leaf({-1, 2, -3}), leaf({10, 20, 30})), {-10, 2, -90});
  CHECK(prelu(leaf({}, {2, 0, 3}), leaf({}, {0})).shape() == Shape{2, 0, 3});
  CHECK_THROWS_WITH_AS(prelu(leaf(Values(12, -1), {2, 3, 2}), leaf({1, 2})),
                       doctest::Contains("[prelu] the slope [2] has not one number for each of the 3 channels"),
                       ShapeError);
  CHECK_THROWS_AS(prelu(leaf(Values(6, -1), {2, 3}), leaf({1, 2})), ShapeError);
  CHECK_NOTHROW(
      check_gradients([](const Inputs& in) { return prelu(in[0], in[1]); }, {spread({2, 2, 3}, 1), spread({2}, 2)}));
}

TEST_CASE("composed operations: first and second derivatives") {
  const auto check = [](Tensor (*f)(const Tensor&)) {
    CHECK_NOTHROW(check_gradients([f](const Inputs& in) { return f(in[0]) * in[0]; }, {spread({2, 3}, 1)}));
  };
  check([](const Tensor& x) { return reciprocal(x); });
  check([](const Tensor& x) { return relu6(4 * x); });
  check([](const Tensor& x) { return mish(x); });
  check([](const Tensor& x) { return celu(x, 0.5); });
  check([](const Tensor& x) { return selu(x); });
  check([](const Tensor& x) { return softplus(x, 2.5); });
  check([](const Tensor& x) { return softsign(x); });
  check([](const Tensor& x) { return log_sigmoid(x); });
  check([](const Tensor& x) { return hard_sigmoid(5 * x); });
  check([](const Tensor& x) { return hard_swish(5 * x); });
  check([](const Tensor& x) { return hard_shrink(x); });
  check([](const Tensor& x) { return soft_shrink(x); });
  check([](const Tensor& x) { return threshold(x, 0.35, 2.0); });
  check([](const Tensor& x) { return clip(3 * x, -1, 1.3); });
  check([](const Tensor& x) { return pow(x, 3); });
  check([](const Tensor& x) { return pow(1.7, x); });
  const Tensor x = spread({2, 3}, 1);
  CHECK_NOTHROW(check_gradients([](const Inputs& in) { return prelu(in[0], in[1]); }, {x, spread({3}, 2)}));
  CHECK_NOTHROW(check_gradients([](const Inputs& in) { return lerp(in[0], in[1], in[2]); },
                                {x, spread({2, 3}, 2), spread({3}, 3)}));
}

TEST_CASE("second derivatives of activations stay finite far away") {
  for (const auto f : {elu, celu, softplus})
    check_values(second_slope([f](const Tensor& x) { return f(x, 1.0); }, {1000, -1000}), {0, 0});
  for (const auto f : {silu, mish, log_sigmoid}) check_values(second_slope(f, {-1000}), {0});
}

}  // namespace
}  // namespace tutti
