// SPDX-License-Identifier: Apache-2.0
// A scalar has axes 0 and -1 to what works along an axis, as in PyTorch, and none to what cuts or joins axes.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>

namespace tutti {
namespace {

using AlongAxis = std::function<Tensor(const Tensor&, std::int64_t axis)>;

TEST_CASE("scalars: axes 0 and -1 of what reduces, normalises, orders or moves, and no other") {
  const std::map<std::string, std::pair<double, AlongAxis>> operations{
      {"sum", {3, [](const Tensor& x, std::int64_t axis) { return sum(x, axis); }}},
      {"sum, kept", {3, [](const Tensor& x, std::int64_t axis) { return sum(x, axis, true); }}},
      {"mean", {3, [](const Tensor& x, std::int64_t axis) { return mean(x, axis); }}},
      {"max", {3, [](const Tensor& x, std::int64_t axis) { return max(x, axis); }}},
      {"min", {3, [](const Tensor& x, std::int64_t axis) { return min(x, axis); }}},
      {"argmax", {0, [](const Tensor& x, std::int64_t axis) { return argmax(x, axis); }}},
      {"argmin", {0, [](const Tensor& x, std::int64_t axis) { return argmin(x, axis, true); }}},
      {"var", {0, [](const Tensor& x, std::int64_t axis) { return var(x, axis, 0); }}},
      {"stddev", {0, [](const Tensor& x, std::int64_t axis) { return stddev(x, axis, 0); }}},
      {"norm", {3, [](const Tensor& x, std::int64_t axis) { return norm(x, axis); }}},
      {"median", {3, [](const Tensor& x, std::int64_t axis) { return median(x, axis); }}},
      {"quantile", {3, [](const Tensor& x, std::int64_t axis) { return quantile(x, 0.3, axis); }}},
      {"logsumexp", {3, [](const Tensor& x, std::int64_t axis) { return logsumexp(x, axis); }}},
      {"prod", {3, [](const Tensor& x, std::int64_t axis) { return prod(x, axis); }}},
      {"any_true", {1, [](const Tensor& x, std::int64_t axis) { return any_true(x, axis); }}},
      {"all_true", {1, [](const Tensor& x, std::int64_t axis) { return all_true(x, axis); }}},
      {"count_nonzero", {1, [](const Tensor& x, std::int64_t axis) { return count_nonzero(x, axis); }}},
      {"softmax", {1, [](const Tensor& x, std::int64_t axis) { return softmax(x, axis); }}},
      {"log_softmax", {0, [](const Tensor& x, std::int64_t axis) { return log_softmax(x, axis); }}},
      {"cumsum", {3, [](const Tensor& x, std::int64_t axis) { return cumsum(x, axis); }}},
      {"cumprod", {3, [](const Tensor& x, std::int64_t axis) { return cumprod(x, axis); }}},
      {"cummax", {3, [](const Tensor& x, std::int64_t axis) { return cummax(x, axis).values; }}},
      {"logcumsumexp", {3, [](const Tensor& x, std::int64_t axis) { return logcumsumexp(x, axis); }}},
      {"sort", {3, [](const Tensor& x, std::int64_t axis) { return sort(x, axis).values; }}},
      {"argsort", {0, [](const Tensor& x, std::int64_t axis) { return argsort(x, axis); }}},
      {"topk", {3, [](const Tensor& x, std::int64_t axis) { return topk(x, 1, axis).values; }}},
      {"squeeze", {3, [](const Tensor& x, std::int64_t axis) { return squeeze(x, axis); }}},
      {"flip", {3, [](const Tensor& x, std::int64_t axis) { return flip(x, axis); }}},
      {"roll", {3, [](const Tensor& x, std::int64_t axis) { return roll(x, 5, axis); }}},
      {"gather", {3, [](const Tensor& x, std::int64_t axis) { return gather(x, axis, index({-1}, {})); }}},
      {"scatter", {7, [](const Tensor& x, std::int64_t axis) { return scatter(x, axis, index({0}, {}), 7); }}},
      {"scatter_add", {3, [](const Tensor& x, std::int64_t axis) { return scatter_add({}, x, axis, index({0}, {})); }}},
  };
  for (const auto& [name, what] : operations) {
    CAPTURE(name);
    const auto& [expected, operation] = what;
    for (const std::int64_t axis : {0, -1}) {
      CAPTURE(axis);
      const Tensor x = leaf({3}, {});
      const Tensor y = operation(x, axis);
      CHECK(y.shape() == Shape{});
      CHECK(y.item() == doctest::Approx(expected));
      if (y.requires_grad()) CHECK_NOTHROW(backward(y));
      if (y.requires_grad()) CHECK(x.grad().shape() == Shape{});
    }
    for (const std::int64_t axis : {1, -2}) CHECK_THROWS_AS(operation(leaf({3}, {}), axis), ShapeError);
  }
}

TEST_CASE("scalars: have no axis to be cut or joined at") {
  const Tensor x = leaf({3}, {});
  CHECK_THROWS_AS(concatenate({x, x}), ShapeError);
  CHECK_THROWS_AS(slice(x, 0, 0, 1), ShapeError);
  CHECK_THROWS_AS(split(x, 1), ShapeError);
  CHECK_THROWS_AS(take(x, index({0}, {1}), 0), ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, 2, 0), ShapeError);
  CHECK_THROWS_AS(unfold(x, 0, 1, 1), ShapeError);
  CHECK_THROWS_AS(x[0], ShapeError);
  CHECK_THROWS_AS(x.length(0), ShapeError);
}

}  // namespace
}  // namespace tutti
