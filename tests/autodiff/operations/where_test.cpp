// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

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

}  // namespace
}  // namespace tutti
