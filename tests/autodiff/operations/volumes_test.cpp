// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling of volumes.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using testing::error_of;

TEST_CASE("conv3d: by hand, and of kernels without depth conv2d of each slice") {
  const Tensor x = constant({1, 2, 3, 4}, {1, 1, 4, 1, 1});
  const Tensor weight = constant({1, 10, 100}, {1, 1, 3, 1, 1});
  CHECK(conv3d(x, weight).to_vector<double>() == Values{321, 432});
  CHECK(conv3d(x, weight, constant({0.5}, {1}), {.stride = {2, 1, 1}, .padding = {1, 0, 0}}).to_vector<double>() ==
        Values{210.5, 432.5});
  CHECK(conv3d(x, weight, {}, {.padding = {3, 0, 0}, .dilation = {3, 1, 1}}).to_vector<double>() ==
        Values{410, 20, 30, 41});
  const Tensor volumes = spread({2, 4, 3, 4, 5}, 1);
  const Tensor flat = spread({6, 2, 1, 3, 2}, 2);
  const Tensor y = conv3d(volumes, flat, {}, {.padding = {0, 1, 0}, .groups = 2});
  for (std::int64_t depth = 0; depth < 3; ++depth) {
    const Tensor slice = conv2d(volumes[{all, all, depth}], squeeze(flat, {2}), {}, {.padding = {1, 0}, .groups = 2});
    CHECK(y[{all, all, depth}].to_vector<double>() == slice.to_vector<double>());
  }
}

TEST_CASE("conv3d and conv_transpose3d: gradients, and each other's") {
  const Conv3dGeometry geometry{.stride = {2, 1, 2}, .padding = {1, 0, 1}, .dilation = {1, 2, 1}, .groups = 2};
  const auto f = [&](const Inputs& in) { return conv3d(in[0], in[1], in[2], geometry); };
  CHECK_NOTHROW(check_gradients(f, {small({1, 2, 3, 3, 2}, 1), small({2, 1, 2, 2, 2}, 2), small({2}, 3)}));
  CHECK_NOTHROW(check_gradients(f, {small({0, 2, 3, 3, 2}, 1), small({2, 1, 2, 2, 2}, 2), small({2}, 3)}));
  const ConvTranspose3dGeometry back{geometry.stride, geometry.padding, {0, 0, 1}, geometry.dilation, geometry.groups};
  const auto g = [&](const Inputs& in) { return conv_transpose3d(in[0], in[1], in[2], back); };
  CHECK_NOTHROW(check_gradients(g, {small({1, 2, 2, 2, 2}, 1), small({2, 1, 2, 1, 2}, 2), small({2}, 3)}));

  const Tensor x = spread({1, 4, 4, 5, 5}, 1);
  const Tensor weight = spread({2, 2, 2, 3, 2}, 2);
  const Tensor y = conv3d(x, weight, {}, geometry);
  const Tensor dy = spread(y.shape(), 3);
  const Tensor dx = conv_transpose3d(
      dy, weight, {},
      {.stride = {2, 1, 2}, .padding = {1, 0, 1}, .output_padding = {0, 0, 1}, .dilation = {1, 2, 1}, .groups = 2});
  REQUIRE(dx.shape() == x.shape());
  CHECK(sum(x * dx).item<double>() == doctest::Approx(sum(y * dy).item<double>()).epsilon(1e-12));
}

TEST_CASE("conv3d and conv_transpose3d: slices of narrow types are added in f32 and rounded once") {
  const Tensor weight = cast(constant({2048, 1, 1, 1, 1}, {1, 1, 5, 1, 1}), DType::f16);
  const Tensor ones(Array::full({1, 1, 5, 1, 1}, 1, DType::f16, test_device()));
  const Values expected{2048, 2048, 2050, 2052, 2052, 4, 3, 2, 1};  // from 2048 on whole numbers are 2 apart
  CHECK(cast(conv_transpose3d(ones, weight), DType::f64).to_vector<double>() == expected);
  const Tensor x(Array::zeros({1, 1, 9, 1, 1}, DType::f16, test_device()), true);
  backward(sum(conv3d(x, weight)));
  CHECK(cast(x.grad(), DType::f64).to_vector<double>() == expected);
}

TEST_CASE("max_pool3d: the gradient goes to the first of equals, NaN wins") {
  Values values(8, 1.0);
  values[6] = values[3] = 5;
  const Tensor x = leaf(values, {1, 1, 2, 2, 2});
  const Tensor y = max_pool3d(x);
  CHECK(y.to_vector<double>() == Values{5});
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == Values{0, 0, 0, 1, 0, 0, 0, 0});
  values[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(max_pool3d(constant(values, {1, 1, 2, 2, 2})).item<double>()));
}

TEST_CASE("pooling of volumes: gradients, and padding that counts or not") {
  const Pool3dGeometry windows{{3, 2, 2}, {2, 1, 2}, {1, 1, 0}};
  const auto largest = [&](const Inputs& in) { return max_pool3d(square(in[0]), windows); };
  CHECK_NOTHROW(check_gradients(largest, {spread({1, 2, 4, 3, 4}, 1, true)}));
  CHECK_NOTHROW(check_gradients(largest, {spread({0, 2, 4, 3, 4}, 1, true)}));
  for (const bool counted : {true, false}) {
    const AvgPool3dGeometry means{windows.kernel, windows.stride, windows.padding, counted};
    const auto mean = [&](const Inputs& in) { return avg_pool3d(square(in[0]), means); };
    CHECK_NOTHROW(check_gradients(mean, {spread({1, 1, 4, 3, 4}, 1)}));
    const Tensor ones =
        avg_pool3d(constant(Values(8, 1.0), {1, 1, 2, 2, 2}), {{2, 2, 2}, {2, 2, 2}, {1, 1, 1}, counted});
    CHECK(ones.to_vector<double>() == Values(8, counted ? 0.125 : 1.0));
  }
}

TEST_CASE("volumes: what does not fit is named") {
  const Tensor x = spread({1, 2, 3, 3, 3}, 1);
  CHECK(error_of([&] {
          conv3d(spread({2, 3, 3, 3}, 1), spread({1, 2, 2, 2, 2}, 2));
        }).starts_with("[conv3d] input [n, c, d, h, w] is needed, not [2, 3, 3, 3]; operands: f64"));
  CHECK(error_of([&] {
          conv3d(x, spread({1, 3, 2, 2, 2}, 2));
        }).starts_with("[conv3d] input [1, 2, 3, 3, 3] has 2 channels, weight [1, 3, 2, 2, 2] in 1 groups takes 3"));
  CHECK(error_of([&] {
          conv3d(x, spread({1, 2, 4, 2, 2}, 2));
        }).starts_with("[conv3d] the kernel of [1, 2, 4, 2, 2] does not fit the padded input [1, 2, 3, 3, 3]"));
  CHECK(error_of([&] { conv3d(x, spread({1, 2, 2, 2, 2}, 2), spread({2}, 3)); }).find("bias") != std::string::npos);
  CHECK(error_of([&] {
          conv3d(x, cast(spread({1, 2, 2, 2, 2}, 2), DType::f32));
        }).starts_with("[conv3d] operands have different dtypes: f64 and f32"));
  const Tensor integers = ones({1, 2, 3, 3, 3}, {.dtype = DType::i32});
  CHECK(error_of([&] { conv3d(integers, integers); }).starts_with("[conv3d] takes a floating type, not i32"));
  CHECK(error_of([&] {
          conv_transpose3d(integers, ones({2, 1, 2, 2, 2}, {.dtype = DType::i32}));
        }).starts_with("[conv_transpose3d] takes a floating type, not i32"));
  CHECK(error_of([&] {
          conv_transpose3d(x, spread({2, 1, 2, 2, 2}, 2), {}, {.output_padding = {0, 1, 0}});
        }).starts_with("[conv_transpose3d] output_padding 1"));
  CHECK(error_of([&] {
          max_pool3d(x, {.kernel = {4, 1, 1}});
        }).starts_with("[max_pool3d] a window of 4 does not fit the padded input [1, 2, 3, 3, 3]"));
  CHECK(error_of([&] { avg_pool3d(x, {.padding = {0, 0, 2}}); }).starts_with("[avg_pool3d] kernel 2"));
}

}  // namespace
}  // namespace tutti
