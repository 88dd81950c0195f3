// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <initializer_list>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Axes = std::initializer_list<std::int64_t>;

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

}  // namespace
}  // namespace tutti
