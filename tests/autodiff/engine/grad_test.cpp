// SPDX-License-Identifier: Apache-2.0
// grad(): several outputs, their gradients, what is unused, what is retained.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

TEST_CASE("grad: several outputs with gradients of their own") {
  const Tensor x = leaf({1, 2});
  const Tensor w = leaf({3, 4});
  const Tensor outputs[] = {x * w, exp(x) * 0, x * 5};
  const Tensor inputs[] = {x, w};
  const GradOptions options{.retain_graph = true,
                            .gradients = {constant({1, 10}, {2}), Tensor(), constant({0, 100}, {2})}};
  auto gradients = grad(outputs, inputs, options);
  CHECK(gradients[0].to_vector<double>() == Values{3, 540});
  CHECK(gradients[1].to_vector<double>() == Values{1, 20});
  gradients = grad(outputs, inputs);
  CHECK(gradients[0].to_vector<double>() == Values{8, 9});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("grad: an output may be another's input, an input another's output") {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  const Tensor z = y * y;
  const Tensor outputs[] = {y, z, y};
  const Tensor inputs[] = {x, y, x};
  CHECK(grad({y, z, y}, {x}, {.retain_graph = true})[0].to_vector<double>() == Values{40});
  const auto gradients = grad(outputs, inputs);
  CHECK(gradients[0].to_vector<double>() == Values{40});  // (1 + 1 + 2y) 2x
  CHECK(gradients[1].to_vector<double>() == Values{10});
  CHECK(gradients[2].to_vector<double>() == Values{40});
}

TEST_CASE("grad: the outputs' gradients are checked, and can be differentiated through") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  const Tensor inputs[] = {x};
  const auto call = [&](std::vector<Tensor> given) {
    return grad(y, inputs, {.create_graph = true, .gradients = given});
  };
  CHECK_THROWS_WITH_AS(call({y, y}), doctest::Contains("2 gradients for 1 outputs"), AutodiffError);
  CHECK_THROWS_AS(call({constant({1}, {1})}), ShapeError);
  CHECK_THROWS_AS(call({Tensor(Array::zeros({2}, DType::f32, test_device()))}), DTypeError);
  const Tensor v = leaf({5, 6});
  const Tensor v_only[] = {v};
  CHECK(grad(sum(call({v})[0]), v_only)[0].to_vector<double>() == Values{2, 4});  // d(2 x v)/dv
}

TEST_CASE("grad: unused inputs, and those behind a null gradient") {
  const Tensor x = leaf({1, 2});
  const Tensor unused = leaf({3});
  const Tensor inputs[] = {unused, x};
  CHECK_THROWS_WITH_AS(grad(x * x, inputs), doctest::Contains("input 0"), AutodiffError);
  const auto gradients = grad(x * x, inputs, {.allow_unused = true});
  CHECK_FALSE(gradients[0].defined());
  CHECK(gradients[1].to_vector<double>() == Values{2, 4});
  const Tensor constant_input[] = {constant({1}, {1})};
  CHECK_THROWS_WITH_AS(grad(x * x, constant_input), doctest::Contains("requires no gradient"), AutodiffError);
  CHECK_THROWS_WITH_AS(grad(x * x, {x, Tensor()}), "[grad] input 1 is undefined", AutodiffError);
}

TEST_CASE("grad: releases what it read, unless told to retain it") {
  const Tensor x = leaf({1, 2});
  const Tensor inputs[] = {x};
  const Tensor y = x * x;
  grad(y, inputs, {.retain_graph = true});
  grad(y, inputs);
  CHECK_THROWS_WITH_AS(grad(y, inputs), doctest::Contains("multiply saved was released"), AutodiffError);
}

TEST_CASE("grad: of a very long chain, also where it is differentiated again") {
  constexpr int kDeep = 300'000;
  const Tensor x = leaf({2});
  const Tensor inputs[] = {x};
  Tensor y = x * x;
  for (int i = 0; i < kDeep; ++i) y = -y;
  const Tensor first = grad(y, inputs, {.create_graph = true})[0];  // a chain as long
  CHECK(first.to_vector<double>() == Values{4});
  CHECK(grad(first, inputs)[0].to_vector<double>() == Values{2});
}

TEST_CASE("grad: each gradient has memory of its own, which a caller may write to") {
  const Tensor x = leaf({1, 2});
  const Tensor y = leaf({3, 4});
  const Tensor inputs[] = {x, y, x};
  const Tensor given = constant({5, 6}, {2});
  const Tensor output = x + y;
  auto gradients = grad(std::span(&output, 1), inputs, {.retain_graph = true, .gradients = {given}});
  for (const Tensor& gradient : gradients) gradient.mul_(2);
  for (const Tensor& gradient : gradients) CHECK(gradient.to_vector<double>() == Values{10, 12});
  CHECK(given.to_vector<double>() == Values{5, 6});
  gradients = grad(std::span(&output, 1), inputs, {.gradients = {given}});
  CHECK(gradients[0].to_vector<double>() == Values{5, 6});
  const Tensor broadcast = grad(sum(x), std::span(&x, 1))[0];
  CHECK(broadcast.add_(1).to_vector<double>() == Values{2, 2});
}

}  // namespace
}  // namespace tutti
