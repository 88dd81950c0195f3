// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/gradcheck.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <limits>

namespace tutti {
namespace {

// x^2, whose gradient is off by `error` at one element.
CheckedFunction square_with(double error, std::size_t element) {
  return [=](const std::vector<Tensor>& in) {
    return custom_function(
        "almost_square", {in.back()}, [](std::span<const Array> x) { return apply(elementwise::Square{}, x[0]); },
        [=](std::span<const Array> x, const Array&, const Array& dy) {
          Values gradient = x[0].to_vector<double>();
          const Values upstream = dy.to_vector<double>();
          for (std::size_t i = 0; i < gradient.size(); ++i)
            gradient[i] = (2 * gradient[i] + (i == element ? error : 0.0)) * upstream[i];
          return std::vector<Array>{Array::from(gradient, x[0].shape(), x[0].device())};
        });
  };
}

TEST_CASE("gradcheck: takes a right gradient, names the element of a wrong one") {
  const Tensor x = leaf({1, -2, 3}, {3});
  CHECK_NOTHROW(gradcheck(square_with(0, 0), {x}));
  CHECK_THROWS_WITH_AS(gradcheck(square_with(0.01, 1), {x}), doctest::Contains("input 0 element 1"), AutodiffError);
  CHECK_THROWS_WITH_AS(gradcheck(square_with(0.01, 2), {leaf({1}), x}), doctest::Contains("input 1 element 2"),
                       AutodiffError);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(gradcheck(square_with(nan, 0), {x}), doctest::Contains("element 0"), AutodiffError);
}

TEST_CASE("gradcheck: tolerances are the caller's") {
  const Tensor x = leaf({1, -2, 3}, {3});
  CHECK_NOTHROW(gradcheck(square_with(0.01, 1), {x}, {.absolute = 0.1}));
  CHECK_THROWS_AS(gradcheck(square_with(0.01, 1), {x}, {.relative = 1e-4}), AutodiffError);
}

TEST_CASE("gradcheck: a gradient that is missing is a wrong one") {
  const Tensor x = leaf({1, -2});
  const auto detached = [](const std::vector<Tensor>& in) { return in[0] * in[0].detach(); };
  CHECK_THROWS_WITH_AS(gradcheck(detached, {x}), doctest::Contains("input 0 element 0"), AutodiffError);
}

TEST_CASE("gradcheck: wants f64, and leaves the inputs as they were") {
  const Tensor single(Array::full({2}, 1, DType::f32, test_device()), true);
  const auto f = [](const std::vector<Tensor>& in) { return in[0] * in[0]; };
  CHECK_THROWS_AS(gradcheck(f, {single}), DTypeError);
  const Tensor x = leaf({1, -2});
  check_gradients(f, {x});
  CHECK_FALSE(x.grad().defined());
  CHECK(x.to_vector<double>() == Values{1, -2});
}

TEST_CASE("gradgradcheck: finds a second derivative that is wrong where the first is right") {
  const Tensor x = leaf({1, -2});
  // 2x dy as it should be, but to the second derivative a constant.
  const auto f = [](const std::vector<Tensor>& in) {
    return in[0] * in[0].detach() * 2 - in[0].detach() * in[0].detach();
  };
  CHECK_NOTHROW(gradgradcheck([](const std::vector<Tensor>& in) { return in[0] * in[0]; }, {x}));
  CHECK_THROWS_AS(gradgradcheck(f, {x}), AutodiffError);
}

TEST_CASE("custom_function: has no second derivative, and says so") {
  const Tensor x = leaf({1, -2});
  CHECK_THROWS_WITH_AS(gradgradcheck(square_with(0, 0), {x}), doctest::Contains("almost_square"), AutodiffError);
}

TEST_CASE("custom_function: what its backward returns must fit") {
  const auto returning = [](std::vector<Array> gradients) {
    const Tensor x = leaf({1, 2});
    backward(sum(custom_function(
        "odd", {x}, [](std::span<const Array> in) { return in[0].copy(); },
        [=](std::span<const Array>, const Array&, const Array&) { return gradients; })));
  };
  const auto message = doctest::Contains("[odd]");
  CHECK_THROWS_WITH_AS(returning({}), message, AutodiffError);
  CHECK_THROWS_WITH_AS(returning({Array::zeros({3}, DType::f64, test_device())}), message, AutodiffError);
  CHECK_THROWS_WITH_AS(returning({Array::zeros({2}, DType::f32, test_device())}), message, AutodiffError);
}

TEST_CASE("custom_function: records nothing without need") {
  const Tensor c = constant({3}, {1});
  CHECK_FALSE(square_with(0, 0)({c}).requires_grad());
  const NoGrad no_grad;
  CHECK_FALSE(square_with(0, 0)({leaf({3})}).requires_grad());
}

}  // namespace
}  // namespace tutti
