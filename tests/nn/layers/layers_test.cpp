// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/pooling.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;

namespace {

Tensor tensor(const std::vector<float>& values, const Shape& shape) {
  return Tensor(Array::from(values, shape, test_device()));
}

void set(Tensor& parameter, const std::vector<float>& values) {
  parameter.set_array(Array::from(values, parameter.shape(), test_device()));
}

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

}  // namespace

TEST_CASE("Linear: x W^T + b, with gradients for weight and bias") {
  Generator random(1);
  Linear layer(2, 3, random, {.device = test_device()});
  CHECK(layer.weight.shape() == Shape{3, 2});
  CHECK(layer.bias.shape() == Shape{3});
  set(layer.weight, {1, 2, 3, 4, 5, 6});
  set(layer.bias, {10, 20, 30});
  const Tensor y = layer.forward(tensor({1, -1, 2, 0}, {2, 2}));
  CHECK(y.to_vector<float>() == std::vector<float>{9, 19, 29, 12, 26, 40});
  backward(sum(y));
  CHECK(layer.weight.grad().to_vector<float>() == std::vector<float>{3, -1, 3, -1, 3, -1});
  CHECK(layer.bias.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("Linear: an activation is that of a module after it, with the same gradients") {
  const auto gradients = [](LinearActivation activation, bool after) {
    Generator random(7);
    const Linear layer(3, 4, random, {.device = test_device(), .activation = activation});
    const Tensor y = layer.forward(tensor(counted(6), {2, 3}));
    backward(sum(after ? ReLU().forward(y) : y));
    return std::pair(layer.weight.grad().to_vector<float>(), layer.bias.grad().to_vector<float>());
  };
  CHECK(gradients(LinearActivation::relu, false) == gradients(LinearActivation::none, true));
}

TEST_CASE("Linear: leading axes, no bias, f64") {
  Generator random(1);
  Linear layer(4, 5, random, {.bias = false, .dtype = DType::f64, .device = test_device()});
  CHECK_FALSE(layer.bias.defined());
  CHECK(layer.named_parameters().size() == 1);
  const Tensor x(Array::zeros({2, 3, 4}, DType::f64, test_device()));
  CHECK(layer.forward(x).shape() == Shape{2, 3, 5});
  CHECK(layer.forward(x).dtype() == DType::f64);
}

TEST_CASE("Linear: refuses impossible sizes and types, and inputs that do not fit") {
  Generator random(1);
  CHECK_THROWS_AS(Linear(0, 3, random), ShapeError);
  CHECK_THROWS_AS(Linear(3, -1, random), ShapeError);
  CHECK_THROWS_AS(Linear(3, 1, random, {.dtype = DType::i64}), DTypeError);
  const Linear layer(3, 1, random, {.device = test_device()});
  CHECK_THROWS_AS(layer.forward(tensor({1, 2}, {1, 2})), ShapeError);
}

TEST_CASE("Linear: the same seed gives the same layer, on any device") {
  Generator a(7);
  Generator b(7);
  const Linear here(5, 4, a, {.device = test_device()});
  const Linear there(5, 4, b, {.device = test_device(1)});
  CHECK(there.weight.device() == test_device(1));
  CHECK(here.weight.to_vector<float>() == there.weight.to_vector<float>());
  CHECK(here.bias.to_vector<float>() == there.bias.to_vector<float>());
  const Linear next(5, 4, a, {.device = test_device()});
  CHECK(next.weight.to_vector<float>() != here.weight.to_vector<float>());
}

TEST_CASE("Conv2d: against a hand-computed example with stride, padding and dilation") {
  Generator random(1);
  Conv2d layer(1, 2, {2, 2}, random, {.device = test_device()});
  CHECK(layer.weight.shape() == Shape{2, 1, 2, 2});
  set(layer.weight, {1, 0, 0, 1, 0, 1, 1, 0});
  set(layer.bias, {0.5F, -1});
  const Tensor x = tensor(counted(9), {1, 1, 3, 3});
  CHECK(layer.forward(x).to_vector<float>() == std::vector<float>{4.5, 6.5, 10.5, 12.5, 3, 5, 9, 11});

  Conv2d wide(1, 1, 3, random,
              {.stride = 2, .padding = {1, 0}, .dilation = {1, 1}, .bias = false, .device = test_device()});
  set(wide.weight, std::vector<float>(9, 1));
  const Tensor y = wide.forward(tensor(counted(20), {1, 1, 4, 5}));
  CHECK(y.shape() == Shape{1, 1, 2, 2});
  // Rows -1..1 and 1..3, columns 0..2 and 2..4 of [[0..4], [5..9], [10..14], [15..19]].
  CHECK(y.to_vector<float>() == std::vector<float>{21, 33, 99, 117});

  Conv2d dilated(1, 1, 2, random, {.dilation = 2, .bias = false, .device = test_device()});
  set(dilated.weight, {1, 1, 1, 1});
  CHECK(dilated.forward(x).to_vector<float>() == std::vector<float>{0 + 2 + 6 + 8});
}

TEST_CASE("Conv2d: refuses what cannot be") {
  Generator random(1);
  CHECK_THROWS_AS(Conv2d(0, 1, 3, random), ShapeError);
  CHECK_THROWS_AS(Conv2d(1, 1, {3, 0}, random), ShapeError);
  CHECK_THROWS_AS(Conv2d(1, 1, 3, random, {.stride = 0}), ShapeError);
  CHECK_THROWS_AS(Conv2d(1, 1, 3, random, {.padding = -1}), ShapeError);
  CHECK_THROWS_AS(Conv2d(1, 1, 3, random, {.dilation = {1, 0}}), ShapeError);
  CHECK_THROWS_AS(Conv2d(1, 1, 3, random, {.dtype = DType::i32}), DTypeError);
  const Conv2d layer(2, 1, 3, random, {.device = test_device()});
  CHECK_THROWS_AS(layer.forward(tensor(counted(9), {1, 1, 3, 3})), ShapeError);
}

TEST_CASE("MaxPool2d: the stride is the kernel unless given") {
  const Tensor x = tensor(counted(16), {1, 1, 4, 4});
  CHECK(MaxPool2d(2).forward(x).to_vector<float>() == std::vector<float>{5, 7, 13, 15});
  CHECK(MaxPool2d(2, {.stride = 1}).forward(x).shape() == Shape{1, 1, 3, 3});
  CHECK(MaxPool2d({2, 4}).forward(x).to_vector<float>() == std::vector<float>{7, 15});
  CHECK(MaxPool2d(2, {.padding = 1}).forward(x).to_vector<float>() ==
        std::vector<float>{0, 2, 3, 8, 10, 11, 12, 14, 15});
}

TEST_CASE("Flatten: joins the axes from the second on") {
  const Tensor x = tensor(counted(24), {2, 3, 2, 2});
  CHECK(Flatten().forward(x).shape() == Shape{2, 12});
  CHECK(Flatten(2).forward(x).shape() == Shape{2, 3, 4});
}
