// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using testing::error_of;

TEST_CASE("conv_transpose1d: by hand") {
  const Tensor x = constant({1, 2, 3}, {1, 1, 3});
  const Tensor weight = constant({1, 10, 100}, {1, 1, 3});
  CHECK(conv_transpose1d(x, weight).to_vector<double>() == Values{1, 12, 123, 230, 300});
  CHECK(conv_transpose1d(x, weight, {}, {.padding = 1}).to_vector<double>() == Values{12, 123, 230});
  CHECK(conv_transpose1d(x, weight, constant({0.5}, {1}), {.stride = 2, .padding = 1, .output_padding = 1})
            .to_vector<double>() == Values{10.5, 102.5, 20.5, 203.5, 30.5, 300.5});
  CHECK(conv_transpose1d(x, weight, {}, {.dilation = 2}).to_vector<double>() == Values{1, 2, 13, 20, 130, 200, 300});
  // Longer than a stride: what follows the last window is part of the result, or 0.
  CHECK(conv_transpose1d(x, weight, {}, {.padding = 2, .output_padding = 2, .dilation = 3}).to_vector<double>() ==
        Values{3, 10, 20, 30, 100, 200, 300});
  const Tensor two = constant({1, 2, 3, 4}, {1, 2, 2});
  const Tensor grouped = constant({1, 10, 100, 1000}, {2, 1, 2});
  CHECK(conv_transpose1d(two, grouped, {}, {.groups = 2}).to_vector<double>() == Values{1, 12, 20, 300, 3400, 4000});
}

TEST_CASE("conv_transpose2d is the adjoint of conv2d") {
  const Conv2dGeometry geometry{.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2};
  const Tensor weight = spread({6, 2, 3, 2}, 1);
  const Tensor x = spread({2, 4, 6, 7}, 2);
  const Tensor y = conv2d(x, weight, {}, geometry);
  const Tensor dy = spread(y.shape(), 3);
  const Tensor back = conv_transpose2d(
      dy, weight, {}, {.stride = {2, 1}, .padding = {1, 2}, .output_padding = {1, 0}, .dilation = {1, 2}, .groups = 2});
  REQUIRE(back.shape() == x.shape());
  CHECK(sum(x * back).item<double>() == doctest::Approx(sum(y * dy).item<double>()).epsilon(1e-12));
}

TEST_CASE("conv_transpose: gradients, of some operands alone too, and of no images") {
  struct Case {
    Shape input;
    Shape weight;
    ConvTranspose2dGeometry geometry;
  };
  const Case cases[] = {
      {{2, 2, 3, 2}, {2, 3, 2, 3}, {}},
      {{1, 4, 2, 3}, {4, 1, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}, .groups = 2}},
      {{1, 1, 2, 2}, {1, 2, 2, 3}, {.padding = {1, 2}, .output_padding = {2, 1}, .dilation = {3, 2}}},
      {{0, 2, 3, 2}, {2, 3, 2, 3}, {}},
  };
  for (const Case& c : cases) {
    CAPTURE(to_string(c.weight));
    const auto f = [&](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2], c.geometry); };
    const Tensor x = small(c.input, 1);
    const Tensor weight = small(c.weight, 2);
    const Tensor bias = small({c.weight[1] * c.geometry.groups}, 3);
    CHECK_NOTHROW(check_gradients(f, {x, weight, bias}));
    CHECK_NOTHROW(check_gradients(f, {x.detach(), weight, bias}));
    CHECK_NOTHROW(check_gradients(f, {x, weight.detach(), bias}));
  }
  const auto f = [](const Inputs& in) { return conv_transpose1d(transpose(in[0], 1, 2), in[1], {}, {.stride = 2}); };
  CHECK_NOTHROW(check_gradients(f, {small({2, 4, 2}, 1), small({2, 3, 3}, 2)}));
}

TEST_CASE("conv_transpose: what does not fit is named") {
  const Tensor x = spread({1, 4, 3, 3}, 1);
  const auto fails = [&](const Shape& weight, const ConvTranspose2dGeometry& geometry, const Tensor& bias = {}) {
    return error_of([&] { conv_transpose2d(x, spread(weight, 2), bias, geometry); });
  };
  CHECK(fails({3, 2, 2, 2}, {})
            .starts_with("[conv_transpose2d] input [1, 4, 3, 3] has 4 channels, weight [3, 2, 2, 2] in 1 groups takes "
                         "3; operands: f64"));
  CHECK(fails({4, 2, 2, 2}, {.groups = 3}).find("3 groups must divide") != std::string::npos);
  CHECK(fails({4, 2, 2, 2}, {.stride = {0, 1}}).find("stride 0") != std::string::npos);
  CHECK(
      fails({4, 2, 2, 2}, {.stride = {2, 2}, .output_padding = {2, 0}})
          .starts_with("[conv_transpose2d] output_padding 2 must be at least 0, and less than stride 2 or dilation 1"));
  CHECK(fails({4, 2, 2, 2}, {.padding = {2, 0}}).find("leave nothing of axis 2") != std::string::npos);
  CHECK(fails({4, 2, 0, 2}, {}).find("empty kernel") != std::string::npos);
  CHECK(fails({4, 2, 2, 2}, {.groups = 2}, spread({2}, 3)).find("bias [2] does not fit 4 channels") !=
        std::string::npos);
  CHECK(error_of([&] {
          conv_transpose1d(x, spread({4, 2, 2}, 1));
        }).starts_with("[conv_transpose1d] input [n, c, l] is needed, not [1, 4, 3, 3]"));
  CHECK(error_of([&] {
          conv_transpose1d(spread({1, 4, 3}, 1), spread({4, 2, 2, 2}, 1));
        }).starts_with("[conv_transpose1d] weight [4, 2, 2, 2] must have as many axes as input [1, 4, 3]"));
}

}  // namespace
}  // namespace tutti
