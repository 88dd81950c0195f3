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

TEST_CASE("softmax, log_softmax: along each axis") {
  const Tensor x = spread({2, 3, 2}, 1);
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    check_gradients([&](const Inputs& in) { return softmax(in[0], axis); }, {x});
    check_gradients([&](const Inputs& in) { return log_softmax(in[0], axis); }, {x});
  }
  check_gradients([](const Inputs& in) { return softmax(in[0], 0); }, {leaf({}, {2, 0})});
}

TEST_CASE("softmax: one kernel's gradient is that composed of operations") {
  const Tensor x = spread({4, 5}, 2);
  const Tensor inputs[] = {x};
  for (const auto f : {softmax, log_softmax}) {
    const Tensor y = sum(square(f(x, 1)));
    const Values composed = grad(y, inputs, {.create_graph = true})[0].to_vector<double>();
    const Values fused = grad(y, inputs)[0].to_vector<double>();
    for (std::size_t i = 0; i < fused.size(); ++i) CHECK(fused[i] == doctest::Approx(composed[i]).epsilon(1e-12));
  }
}

TEST_CASE("softmax: rows sum to one, large numbers and a masked row's -inf keep finite gradients") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = leaf({1000, 999, -infinity, 0, -1000, 5}, {2, 3});
  const Tensor y = softmax(x);
  for (const double total : sum(y, {1}).to_vector<double>()) CHECK(total == doctest::Approx(1));
  backward(sum(square(y)));
  for (const double value : x.grad().to_vector<double>()) CHECK(std::isfinite(value));
}

TEST_CASE("softmax: integers are promoted, an axis out of range is named") {
  CHECK(softmax(index({1, 1}, {2})).to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  CHECK_THROWS_WITH_AS(softmax(spread({2}, 1), 1), doctest::Contains("softmax"), ShapeError);
}

}  // namespace
}  // namespace tutti
