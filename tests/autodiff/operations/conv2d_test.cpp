// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

struct Case {
  Shape input;
  Shape weight;
  Conv2dGeometry geometry;
};

TEST_CASE("conv2d: strides, padding, dilation, groups, one and several channels") {
  const Case cases[] = {
      {{2, 2, 4, 5}, {3, 2, 3, 2}, {}},
      {{1, 1, 5, 5}, {2, 1, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}},
      {{1, 2, 6, 5}, {2, 2, 2, 2}, {.stride = {1, 3}, .padding = {0, 2}, .dilation = {1, 1}}},
      {{1, 1, 7, 6}, {2, 1, 3, 2}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 3}}},
      {{2, 3, 3, 3}, {2, 3, 1, 1}, {}},
      {{1, 1, 2, 2}, {1, 1, 3, 3}, {.stride = {1, 1}, .padding = {2, 2}, .dilation = {1, 1}}},
      {{0, 2, 4, 4}, {3, 2, 3, 3}, {}},
      {{2, 4, 4, 5}, {2, 2, 3, 2}, {.padding = {1, 0}, .groups = 2}},
      {{1, 3, 5, 4}, {3, 1, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 3}},
      {{1, 2, 4, 4}, {4, 1, 2, 2}, {.stride = {1, 3}, .dilation = {2, 1}, .groups = 2}},
      {{0, 2, 4, 4}, {2, 1, 3, 3}, {.groups = 2}},
  };
  for (const Case& c : cases) {
    CAPTURE(to_string(c.input));
    CAPTURE(to_string(c.weight));
    const auto plain = [&](const Inputs& in) { return conv2d(in[0], in[1], {}, c.geometry); };
    const auto biased = [&](const Inputs& in) { return conv2d(in[0], in[1], in[2], c.geometry); };
    const Tensor x = small(c.input, 1);
    const Tensor weight = small(c.weight, 2);
    CHECK_NOTHROW(check_gradients(plain, {x, weight}));
    CHECK_NOTHROW(check_gradients(plain, {x.detach(), weight}));
    CHECK_NOTHROW(check_gradients(plain, {x, weight.detach()}));
    CHECK_NOTHROW(check_gradients(biased, {x, weight, small({c.weight[0]}, 3)}));
  }
}

TEST_CASE("conv2d: what does not fit is named") {
  CHECK_THROWS_WITH_AS(conv2d(small({1, 2, 4, 4}, 1), small({1, 3, 2, 2}, 2)), doctest::Contains("[conv2d]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(small({1, 1, 2, 2}, 1), small({1, 1, 3, 3}, 2)), doctest::Contains("[conv2d]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(small({1, 1, 4, 4}, 1), small({2, 1, 3, 3}, 2), small({3}, 3)), doctest::Contains("bias"),
                       ShapeError);
}

}  // namespace
}  // namespace tutti
