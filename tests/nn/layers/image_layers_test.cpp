// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions, layers of volumes, pooling to a size and images of another size.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/adaptive_pooling.h>
#include <tutti/nn/conv3d.h>
#include <tutti/nn/conv_transpose.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/upsample.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

float largest_size(const Tensor& x) { return max(abs(x)).item<float>(); }

TEST_CASE("ConvTranspose: shapes of weights and results, and where they start") {
  Generator random(1);
  const ConvTranspose2d doubled(4, 6, 2, random, {.stride = 2, .device = test_device()});
  CHECK(doubled.weight.shape() == Shape{4, 6, 2, 2});
  CHECK(doubled.bias.shape() == Shape{6});
  CHECK(doubled.forward(counted({2, 4, 3, 5}, DType::f32)).shape() == Shape{2, 6, 6, 10});
  const float bound = 1 / std::sqrt(6.0F * 2 * 2);  // as PyTorch's: of the channels out
  CHECK(largest_size(doubled.weight) <= bound);
  CHECK(largest_size(doubled.weight) > 0.8F * bound);
  CHECK(largest_size(doubled.bias) <= bound);
  const ConvTranspose2d grouped(4, 6, {3, 2}, random,
                                {.stride = {2, 1},
                                 .padding = {1, 0},
                                 .output_padding = {1, 0},
                                 .groups = 2,
                                 .bias = false,
                                 .device = test_device()});
  CHECK(grouped.weight.shape() == Shape{4, 3, 3, 2});
  CHECK_FALSE(grouped.bias.defined());
  CHECK(grouped.forward(counted({2, 4, 3, 5}, DType::f32)).shape() == Shape{2, 6, 6, 6});
  const ConvTranspose1d sequence(2, 3, 4, random, {.stride = 2, .padding = 1, .device = test_device()});
  CHECK(sequence.weight.shape() == Shape{2, 3, 4});
  CHECK(sequence.forward(counted({1, 2, 5}, DType::f32)).shape() == Shape{1, 3, 10});
  const ConvTranspose3d volume(2, 3, {1, 2, 2}, random, {.stride = {1, 2, 2}, .device = test_device()});
  CHECK(volume.weight.shape() == Shape{2, 3, 1, 2, 2});
  CHECK(volume.forward(counted({1, 2, 3, 2, 2}, DType::f32)).shape() == Shape{1, 3, 3, 4, 4});
}

TEST_CASE("Conv3d: shapes, groups, padding by side and padding that keeps the size") {
  Generator random(1);
  const Conv3d plain(2, 4, {3, 2, 2}, random, {.stride = {2, 1, 1}, .padding = {1, 0, 0}, .device = test_device()});
  CHECK(plain.weight.shape() == Shape{4, 2, 3, 2, 2});
  CHECK(plain.forward(counted({2, 2, 5, 4, 4}, DType::f32)).shape() == Shape{2, 4, 3, 3, 3});
  const Conv3d same(2, 4, {2, 3, 4}, random,
                    {.padding = AxisPadding::same(), .dilation = {2, 1, 1}, .groups = 2, .device = test_device()});
  CHECK(same.forward(counted({1, 2, 4, 5, 6}, DType::f32)).shape() == Shape{1, 4, 4, 5, 6});
  Conv3d causal(1, 1, {2, 1, 1}, random, {.padding = {{1, 0}, 0, 0}, .bias = false, .device = test_device()});
  causal.weight = Tensor(Array::full({1, 1, 2, 1, 1}, 1, DType::f32, test_device()), true);
  CHECK(causal.forward(counted({1, 1, 3, 1, 1}, DType::f32)).to_vector<float>() == std::vector<float>{0, 1, 3});
}

TEST_CASE("Conv3d and ConvTranspose refuse what cannot be") {
  Generator random(1);
  CHECK_THROWS_WITH_AS(Conv3d(4, 6, 3, random, {.groups = 4}), "[Conv3d] 4 groups must divide channels in 4 and out 6",
                       ShapeError);
  CHECK_THROWS_WITH_AS(Conv3d(0, 6, 3, random), "[Conv3d] channels must be positive, got in 0 and out 6", ShapeError);
  CHECK_THROWS_WITH_AS(Conv3d(1, 1, {3, 0, 1}, random), "[Conv3d] kernel must be at least 1, got [3, 0, 1]",
                       ShapeError);
  CHECK_THROWS_AS(Conv3d(1, 1, 3, random, {.padding = -1}), ShapeError);
  CHECK_THROWS_AS(Conv3d(1, 1, 3, random, {.dtype = DType::i32}), DTypeError);
  CHECK_THROWS_WITH_AS(ConvTranspose1d(1, 1, 3, random, {.stride = 0}),
                       "[ConvTranspose1d] stride must be at least 1, got [0]", ShapeError);
  CHECK_THROWS_WITH_AS(ConvTranspose2d(1, 1, 3, random, {.stride = 2, .output_padding = {1, 2}}),
                       "[ConvTranspose2d] padding 0 and output_padding 2 must be at least 0, the latter less than "
                       "stride 2 or dilation 1",
                       ShapeError);
  CHECK_THROWS_AS(ConvTranspose3d(2, 3, 1, random, {.groups = 2}), ShapeError);
}

TEST_CASE("pooling of volumes, to a size, and images of another size") {
  const Tensor volume = counted({1, 1, 2, 2, 4}, DType::f32);
  CHECK(MaxPool3d(2).forward(volume).to_vector<float>() == std::vector<float>{13, 15});
  CHECK(AvgPool3d({2, 2, 4}).forward(volume).to_vector<float>() == std::vector<float>{7.5});
  CHECK(MaxPool3d(2, {.stride = {0, 0, 1}}).forward(volume).shape() == Shape{1, 1, 1, 1, 3});
  CHECK(AvgPool3d(2, {.padding = 1, .count_include_pad = false}).forward(volume).shape() == Shape{1, 1, 2, 2, 3});
  const Tensor image = counted({1, 2, 3, 4}, DType::f32);
  CHECK(AdaptiveAvgPool2d(1).forward(image).to_vector<float>() == std::vector<float>{5.5, 17.5});
  CHECK(AdaptiveMaxPool2d({1, 2}).forward(image).to_vector<float>() == std::vector<float>{9, 11, 21, 23});
  CHECK(AdaptiveAvgPool1d(2).forward(counted({1, 1, 4}, DType::f32)).to_vector<float>() ==
        std::vector<float>{0.5, 2.5});
  CHECK(AdaptiveMaxPool1d(2).forward(counted({1, 1, 4}, DType::f32)).to_vector<float>() == std::vector<float>{1, 3});
  CHECK(AdaptiveAvgPool3d({1, 1, 2}).forward(volume).to_vector<float>() == std::vector<float>{6.5, 8.5});
  CHECK(AdaptiveMaxPool3d(1).forward(volume).to_vector<float>() == std::vector<float>{15});
  CHECK(Upsample({.scale = {2}}).forward(counted({1, 1, 2}, DType::f32)).to_vector<float>() ==
        std::vector<float>{0, 0, 1, 1});
  CHECK(PixelUnshuffle(2).forward(PixelShuffle(2).forward(counted({1, 4, 1, 2}, DType::f32))).to_vector<float>() ==
        counted({1, 4, 1, 2}, DType::f32).to_vector<float>());
}

TEST_CASE("pooling: functions and modules take the kernel for a stride that is left out") {
  const auto check_same = [](const Tensor& of_function, const Tensor& of_module, const Shape& shape) {
    CHECK(of_function.shape() == shape);
    CHECK(of_function.to_vector<float>() == of_module.to_vector<float>());
  };
  const Tensor row = counted({1, 2, 9}, DType::f32);
  check_same(max_pool1d(row, {.kernel = 3}), MaxPool1d(3)(row), {1, 2, 3});
  check_same(avg_pool1d(row, {.kernel = 3, .padding = 1}), AvgPool1d(3, {.padding = 1})(row), {1, 2, 3});
  const Tensor image = counted({1, 1, 9, 8}, DType::f32);
  check_same(max_pool2d(image, {.kernel = {3, 4}}), MaxPool2d({3, 4})(image), {1, 1, 3, 2});
  check_same(avg_pool2d(image, {.kernel = {3, 4}}), AvgPool2d({3, 4})(image), {1, 1, 3, 2});
  check_same(max_pool2d(image), MaxPool2d(2)(image), {1, 1, 4, 4});
  const Tensor volume = counted({1, 1, 3, 9, 8}, DType::f32);
  check_same(max_pool3d(volume, {.kernel = {1, 3, 4}}), MaxPool3d({1, 3, 4})(volume), {1, 1, 3, 3, 2});
  check_same(avg_pool3d(volume, {.kernel = {3, 3, 4}}), AvgPool3d({3, 3, 4})(volume), {1, 1, 1, 3, 2});
  CHECK_THROWS_AS(max_pool2d(image, {.kernel = {3, 3}, .stride = {2, 0}}), ShapeError);
}

TEST_CASE("a decoder of these layers in a Sequential") {
  Generator random(1);
  Sequential decoder(ConvTranspose2d(3, 8, 2, random, {.stride = 2, .device = test_device()}),
                     Upsample({.scale = {2}, .mode = Interpolation::linear}), PixelShuffle(2),
                     AdaptiveAvgPool2d({5, 3}));
  CHECK(decoder.forward(counted({2, 3, 4, 4}, DType::f32)).shape() == Shape{2, 2, 5, 3});
  CHECK(describe(decoder).find("0.weight") != std::string::npos);
}

}  // namespace
}  // namespace tutti
