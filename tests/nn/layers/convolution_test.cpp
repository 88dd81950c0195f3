// SPDX-License-Identifier: Apache-2.0
// Groups of channels, padding by side, and sequences; the rest of Conv2d is in layers_test.cpp.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/conv1d.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

Tensor ones(const Shape& shape) { return Tensor(Array::full(shape, 1, DType::f32, test_device()), true); }

TEST_CASE("Conv2d: groups of channels, and as many as channels") {
  Generator random(1);
  const Conv2d two(4, 6, 3, random, {.groups = 2, .device = test_device()});
  CHECK(two.weight.shape() == Shape{6, 2, 3, 3});
  CHECK(two.geometry().groups == 2);
  const Tensor x = counted({2, 4, 5, 5}, DType::f32);
  const Tensor y = two.forward(x);
  CHECK(y.shape() == Shape{2, 6, 3, 3});
  const Tensor first = conv2d(slice(x, 1, 0, 2), slice(two.weight, 0, 0, 3), slice(two.bias, 0, 0, 3));
  const std::vector<float> found = slice(y, 1, 0, 3).to_vector<float>();
  const std::vector<float> expected = first.to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  const Conv2d depthwise(4, 4, 3, random, {.padding = 1, .groups = 4, .device = test_device()});
  CHECK(depthwise.weight.shape() == Shape{4, 1, 3, 3});
  CHECK(depthwise.forward(x).shape() == x.shape());
}

TEST_CASE("Conv2d: padding by side, and padding that keeps the size") {
  Generator random(1);
  Conv2d below(1, 1, 2, random, {.padding = {{0, 1}, {1, 0}}, .bias = false, .device = test_device()});
  below.weight = ones({1, 1, 2, 2});
  CHECK(below.forward(counted({1, 1, 2, 2}, DType::f32)).to_vector<float>() == std::vector<float>{2, 6, 2, 5});
  for (const Extent2d kernel : {Extent2d(3, 2), Extent2d(4, 5)})
    for (const Extent2d dilation : {Extent2d(1), Extent2d(1, 3)}) {
      const Conv2d same(1, 2, kernel, random,
                        {.padding = AxisPadding::same(), .dilation = dilation, .device = test_device()});
      CHECK(same.forward(counted({3, 1, 7, 8}, DType::f32)).shape() == Shape{3, 2, 7, 8});
    }
  Conv2d even(1, 1, {1, 2}, random, {.padding = AxisPadding::same(), .bias = false, .device = test_device()});
  even.weight = ones({1, 1, 1, 2});
  CHECK(even.forward(counted({1, 1, 1, 3}, DType::f32)).to_vector<float>() ==
        std::vector<float>{1, 3, 2});  // the zero is behind
}

TEST_CASE("Conv2d: groups and padding that cannot be") {
  Generator random(1);
  CHECK_THROWS_WITH_AS(Conv2d(4, 6, 3, random, {.groups = 4}), "[Conv2d] 4 groups must divide channels in 4 and out 6",
                       ShapeError);
  CHECK_THROWS_AS(Conv2d(4, 6, 3, random, {.groups = 0}), ShapeError);
  CHECK_THROWS_WITH_AS(Conv2d(1, 1, 3, random, {.padding = {{1, 1}, {1, -1}}}),
                       "[Conv2d] padding must be at least 0, got 1 and -1", ShapeError);
  CHECK_THROWS_WITH_AS(Conv2d(1, 1, 3, random, {.stride = 2, .padding = AxisPadding::same()}),
                       "[Conv2d] padding that keeps the size needs a stride of 1, not 2", ShapeError);
}

TEST_CASE("Conv1d: values, shapes, causal padding and groups") {
  Generator random(1);
  Conv1d sums(2, 1, 3, random, {.padding = {2, 0}, .bias = false, .device = test_device()});
  CHECK(sums.weight.shape() == Shape{1, 2, 3});
  sums.weight = ones({1, 2, 3});
  CHECK(sums.forward(counted({1, 2, 4}, DType::f32)).to_vector<float>() == std::vector<float>{4, 10, 18, 24});
  const Conv1d strided(3, 6, 3, random,
                       {.stride = 2, .padding = 1, .dilation = 2, .groups = 3, .device = test_device()});
  CHECK(strided.weight.shape() == Shape{6, 1, 3});
  CHECK(strided.bias.shape() == Shape{6});
  CHECK(strided.forward(counted({2, 3, 9}, DType::f32)).shape() == Shape{2, 6, 4});
  const Conv1d same(1, 1, 4, random, {.padding = AxisPadding::same(), .device = test_device()});
  CHECK(same.forward(counted({2, 1, 9}, DType::f32)).shape() == Shape{2, 1, 9});
}

TEST_CASE("Conv1d: refuses what cannot be") {
  Generator random(1);
  CHECK_THROWS_AS(Conv1d(0, 1, 3, random), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 0, random), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 3, random, {.stride = 0}), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 3, random, {.padding = -1}), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 3, random, {.dilation = 0}), ShapeError);
  CHECK_THROWS_WITH_AS(Conv1d(4, 2, 3, random, {.groups = 4}), doctest::Contains("[Conv1d] 4 groups"), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 3, random, {.stride = 2, .padding = AxisPadding::same()}), ShapeError);
  CHECK_THROWS_AS(Conv1d(1, 1, 3, random, {.dtype = DType::i32}), DTypeError);
  const Conv1d layer(2, 1, 3, random, {.device = test_device()});
  CHECK_THROWS_WITH_AS(layer.forward(counted({1, 3, 9}, DType::f32)), doctest::Contains("[conv1d]"), ShapeError);
}

TEST_CASE("pooling: averages, sequences, and of whole images") {
  const Tensor x = counted({1, 1, 4, 4}, DType::f32);
  CHECK(AvgPool2d(2).forward(x).to_vector<float>() == std::vector<float>{2.5, 4.5, 10.5, 12.5});
  CHECK(AvgPool2d(2, {.stride = 1}).forward(x).shape() == Shape{1, 1, 3, 3});
  CHECK(AvgPool2d(2, {.stride = {0, 1}}).forward(x).shape() == Shape{1, 1, 2, 3});
  CHECK(AvgPool2d(3, {.padding = 1, .count_include_pad = false}).forward(x).to_vector<float>() ==
        std::vector<float>{2.5, 4.5, 10.5, 12.5});
  const Tensor sequences = counted({1, 2, 4}, DType::f32);
  CHECK(MaxPool1d(2).forward(sequences).to_vector<float>() == std::vector<float>{1, 3, 5, 7});
  CHECK(MaxPool1d(2, {.stride = 1, .padding = 1}).forward(sequences).shape() == Shape{1, 2, 5});
  CHECK(AvgPool1d(2).forward(sequences).to_vector<float>() == std::vector<float>{0.5, 2.5, 4.5, 6.5});
  CHECK(AvgPool1d(2, {.stride = 3, .padding = 1, .count_include_pad = false}).forward(sequences).to_vector<float>() ==
        std::vector<float>{0, 2.5, 4, 6.5});
  const Tensor means = GlobalAvgPool2d().forward(counted({2, 2, 3, 1}, DType::f32));
  CHECK(means.shape() == Shape{2, 2, 1, 1});
  CHECK(means.to_vector<float>() == std::vector<float>{1, 4, 7, 10});
  CHECK_THROWS_WITH_AS(GlobalAvgPool2d().forward(sequences), doctest::Contains("[GlobalAvgPool2d]"), ShapeError);
}

TEST_CASE("convolutions and pooling in a Sequential are found and described") {
  Generator random(1);
  Sequential network(Conv1d(3, 6, 3, random, {.padding = 1, .groups = 3, .device = test_device()}), MaxPool1d(2),
                     AvgPool1d(2), Flatten());
  CHECK(network.forward(counted({2, 3, 8}, DType::f32)).shape() == Shape{2, 12});
  CHECK(describe(network).find("0.weight") != std::string::npos);
  CHECK(describe(network).find("[6, 1, 3]") != std::string::npos);
  const Sequential images(
      Conv2d(2, 2, 3, random, {.padding = AxisPadding::same(), .groups = 2, .device = test_device()}), AvgPool2d(2),
      GlobalAvgPool2d(), Flatten());
  CHECK(images.forward(counted({3, 2, 6, 6}, DType::f32)).shape() == Shape{3, 2});
}

}  // namespace
}  // namespace tutti
