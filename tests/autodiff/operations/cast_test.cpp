// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("cast: the gradient comes back in the input's dtype") {
  const Tensor x = leaf({0.5, -2, 3});
  const Tensor y = cast(x, DType::f32);
  CHECK(y.dtype() == DType::f32);
  backward(sum(y * y * 0.5));
  CHECK(x.grad().dtype() == DType::f64);
  CHECK(x.grad().to_vector<double>() == Values{0.5, -2, 3});
}

TEST_CASE("cast: through f32 and back, once more differentiated") {
  // Powers of two survive f32, and steps of 1e-3 are above its rounding here.
  const auto f = [](const Inputs& in) { return square(cast(cast(in[0], DType::f32), DType::f64)); };
  const GradcheckOptions coarse{.step = 0.0009765625, .absolute = 1e-3, .relative = 1e-3};
  gradcheck(f, {leaf({0.5, -2, 4})}, coarse);
  gradgradcheck(f, {leaf({0.5, -2, 4})}, coarse);
}

TEST_CASE("cast: integers and bool end a graph") {
  const Tensor x = leaf({1.5, 0, -2.5});
  CHECK_FALSE(cast(x, DType::i64).requires_grad());
  CHECK(cast(x, DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, -2});
  CHECK(cast(x, DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true});
}

TEST_CASE("to: a copy on another device, whose gradient comes home") {
  const Tensor x = spread({2, 3}, 1);
  check_gradients([](const Inputs& in) { return square(to(in[0], test_device(1))); }, {x});
  const Tensor there = to(x, test_device(1));
  CHECK(there.device() == test_device(1));
  CHECK(there.to_vector<double>() == x.to_vector<double>());
  backward(sum(there * 2));
  CHECK(x.grad().device() == test_device());
  CHECK_THROWS_WITH_AS(there + x, doctest::Contains(as_tested("cpu:1")), DeviceError);
}

}  // namespace
}  // namespace tutti
