// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

Tensor mask(const Shape& shape, std::uint64_t seed) { return spread(shape, seed).detach() > 0; }

TEST_CASE("where: mask and operands broadcast against each other") {
  const auto with = [](const Tensor& m) { return [m](const Inputs& in) { return where(m, in[0], in[1]); }; };
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({2, 3}, 2);
  check_gradients(with(mask({2, 3}, 3)), {a, b});
  check_gradients(with(mask({3}, 3)), {a, b});
  check_gradients(with(mask({4, 2, 1}, 3)), {a, spread({3}, 2)});
  check_gradients(with(mask({2, 3}, 3)), {spread({}, 1), b});
  check_gradients(with(mask({2, 3}, 3)), {a.detach(), b});
  check_gradients([](const Inputs& in) { return where(in[0] > 0.0, square(in[0]), in[0] * 3); }, {a});
}

TEST_CASE("where: the branch not taken contributes exactly zero, also when its gradient is infinite") {
  const Tensor x = leaf({0, 4});
  backward(sum(where(x > 0, sqrt(where(x > 0, x, 1.0)), 0.0)));
  CHECK(x.grad().to_vector<double>() == Values{0, 0.25});
  const Tensor a = leaf({1, 2});
  const Tensor nan = leaf({std::numeric_limits<double>::quiet_NaN(), 5});
  backward(sum(where(constant({0, 1}, {2}) > 0.5, nan, a)));
  CHECK(nan.grad().to_vector<double>() == Values{0, 1});
}

TEST_CASE("where: a mask that is not bool is refused by dtype") {
  CHECK_THROWS_WITH_AS(where(spread({2}, 1), spread({2}, 1), spread({2}, 2)), doctest::Contains("f64"), DTypeError);
}

TEST_CASE("masked_fill: a value in the tensor's dtype") {
  const Tensor x = spread({2, 3}, 1);
  check_gradients([](const std::vector<Tensor>& in) { return masked_fill(in[0], in[0] > 0.5, -2.0); }, {x});
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}, test_device()));
  CHECK(masked_fill(whole, whole == 2, 7).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 7, 3});
  CHECK_THROWS_AS(masked_fill(x, x > 0, constant({1, 2}, {2})), ShapeError);
}

TEST_CASE("one_hot: 1 at each label's place") {
  const Tensor labels = index({2, 0}, {2});
  CHECK(one_hot(labels, 3).to_vector<float>() == std::vector<float>{0, 0, 1, 1, 0, 0});
  CHECK(one_hot(labels, 3, DType::boolean).to_vector<bool>() ==
        std::vector<bool>{false, false, true, true, false, false});
  CHECK(one_hot(index({1}, {}), 2).shape() == Shape{2});
  CHECK_THROWS_AS(one_hot(labels, 2).to_vector<float>(), ShapeError);
  CHECK_THROWS_AS(one_hot(labels < 1, 2), DTypeError);
}

}  // namespace
}  // namespace tutti
