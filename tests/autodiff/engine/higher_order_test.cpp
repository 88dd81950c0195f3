// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <vector>

namespace tutti {
namespace {

Tensor derivative(const Tensor& y, const Tensor& x) {
  const Tensor inputs[] = {x};
  return grad(y, inputs, {.create_graph = true})[0];
}

TEST_CASE("grad: derivatives of a polynomial, to the third and on") {
  const Tensor x = leaf({2, -1});
  const Tensor y = x * x * x * x - 3 * x * x * x + 5 * x;
  const Tensor first = derivative(y, x);  // elementwise, so that the gradient of the sum is the derivative
  const Tensor second = derivative(first, x);
  const Tensor third = derivative(second, x);
  const Tensor fourth = derivative(third, x);
  CHECK(first.to_vector<double>() == Values{4 * 8 - 9 * 4 + 5, -4 - 9 + 5});
  CHECK(second.to_vector<double>() == Values{12 * 4 - 18 * 2, 12 + 18});
  CHECK(third.to_vector<double>() == Values{24 * 2 - 18, -24 - 18});
  CHECK(fourth.to_vector<double>() == Values{24, 24});
}

TEST_CASE("grad: derivatives of tanh, whose gradient reads its output") {
  const Tensor x = leaf({0.5});
  const double t = tanh(x).item<double>();
  const Tensor first = derivative(tanh(x), x);
  const Tensor second = derivative(first, x);
  CHECK(first.item<double>() == doctest::Approx(1 - t * t));
  CHECK(second.item<double>() == doctest::Approx(-2 * t * (1 - t * t)));
  CHECK(derivative(second, x).item<double>() == doctest::Approx((6 * t * t - 2) * (1 - t * t)));
}

TEST_CASE("grad: a Hessian-vector product") {
  const Values a{2, 1, 0, 1, 3, -1, 0, -1, 4};
  const Tensor x = leaf({1, -2, 0.5}, {3, 1});
  const Tensor direction = constant({1, 2, 3}, {3, 1});
  const Tensor y = sum(transpose(x, 0, 1) * matmul(transpose(x, 0, 1), constant(a, {3, 3}))) / 2;  // x'Ax / 2
  const Tensor along = sum(derivative(y, x) * direction);
  const Tensor inputs[] = {x};
  CHECK(grad(along, inputs)[0].to_vector<double>() == Values{4, 4, 10});  // A v
}

TEST_CASE("grad: a gradient penalty trains through backward") {
  const Tensor w = leaf({0.5, -1, 2, 0.25}, {2, 2});
  const Tensor x = leaf({1, 2, 3, -1, 0.5, 1}, {3, 2});
  const auto penalty = [&](const Tensor& weight) {
    const Tensor gradient = derivative(sum(tanh(linear(x, weight))), x);
    return sum(square(sqrt(sum(square(gradient), {1})) - 1));
  };
  backward(penalty(w));
  const Values got = w.grad().to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    Values above = w.to_vector<double>();
    Values below = above;
    above[i] += 1e-6;
    below[i] -= 1e-6;
    const double expected =
        (penalty(constant(above, {2, 2})).item<double>() - penalty(constant(below, {2, 2})).item<double>()) / 2e-6;
    CHECK(got[i] == doctest::Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("grad: leaves all slots untouched") {
  const Tensor x = leaf({1, 2});
  const Tensor w = leaf({3, 4});
  backward(sum(x * 5));
  const Tensor inputs[] = {x};
  CHECK(grad(sum(x * w), inputs)[0].to_vector<double>() == Values{3, 4});
  CHECK(x.grad().to_vector<double>() == Values{5, 5});
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("grad: of tensors in the middle of a graph, and of the output itself") {
  const Tensor x = leaf({2});
  const Tensor middle = x * x;
  const Tensor y = middle * middle * x;
  const Tensor inputs[] = {middle, x, y};
  const std::vector<Tensor> gradients = grad(y, inputs);
  CHECK(gradients[0].item<double>() == 2 * 4 * 2);
  CHECK(gradients[1].item<double>() == 5 * 16);
  CHECK(gradients[2].item<double>() == 1);
}

TEST_CASE("grad: one input asked for twice, and several outputs") {
  const Tensor x = leaf({2, 3});
  const Tensor outputs[] = {x * x, x * 10};
  const Tensor inputs[] = {x, x};
  const std::vector<Tensor> gradients = grad(outputs, inputs);
  CHECK(gradients[0].to_vector<double>() == Values{14, 16});
  CHECK(gradients[1].to_vector<double>() == Values{14, 16});
  const Tensor twice[] = {x * x, x * x};
  CHECK(grad(twice, std::span(inputs, 1))[0].to_vector<double>() == Values{8, 12});
}

TEST_CASE("grad: inputs without a path") {
  const Tensor x = leaf({2});
  const Tensor other = leaf({3});
  const Tensor inputs[] = {x, other};
  CHECK_THROWS_WITH_AS(grad(x * x, inputs), doctest::Contains("input 1"), AutodiffError);
  const std::vector<Tensor> gradients = grad(x * x, inputs, {.allow_unused = true});
  CHECK(gradients[0].item<double>() == 4);
  CHECK_FALSE(gradients[1].defined());
  const Tensor constants[] = {constant({1}, {1})};
  CHECK_THROWS_WITH_AS(grad(x * x, constants), doctest::Contains("input 0"), AutodiffError);
}

TEST_CASE("grad: runs only what leads to its inputs") {
  const Tensor x = leaf({2});
  const Tensor y = leaf({3});
  int runs = 0;
  const Tensor beside = custom_function(
      "beside", {y}, [](std::span<const Array> in) { return in[0].copy(); },
      [&](std::span<const Array>, const Array&, const Array& dy) {
        ++runs;
        return std::vector<Array>{dy};
      });
  const Tensor inputs[] = {x};
  CHECK(grad(x * x + beside, inputs, {.retain_graph = true})[0].item<double>() == 4);
  CHECK(runs == 0);
  backward(x * x + beside);
  CHECK(runs == 1);
}

TEST_CASE("grad: without retain_graph releases, with it or create_graph keeps") {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor inputs[] = {x};
  grad(y, inputs, {.create_graph = true});
  grad(y, inputs, {.retain_graph = true});
  CHECK(grad(y, inputs)[0].item<double>() == 4);
  CHECK_THROWS_WITH_AS(grad(y, inputs), doctest::Contains("multiply"), AutodiffError);
}

TEST_CASE("grad: results carry a graph only if asked") {
  const Tensor x = leaf({2});
  const Tensor y = x * x * x;
  const Tensor inputs[] = {x};
  CHECK_FALSE(grad(y, inputs, {.retain_graph = true})[0].requires_grad());
  CHECK(derivative(y, x).requires_grad());
  CHECK(grad_enabled());
}

}  // namespace
}  // namespace tutti
