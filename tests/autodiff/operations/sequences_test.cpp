// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling of sequences.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("conv1d: a sequence is an image of one row, without a copy") {
  const Tensor x = spread({2, 3, 5}, 1);
  const Array image = expand_dims(x, 2).array();
  CHECK(image.raw_data() == x.array().raw_data());
  CHECK(image.is_contiguous());
}

TEST_CASE("conv1d: by hand") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 4});
  const Tensor weight = constant({1, 10, 100, 1000}, {2, 1, 2});
  const Tensor bias = constant({0.5, 0.25}, {2});
  CHECK(conv1d(x, weight, bias, {.groups = 2}).to_vector<double>() ==
        Values{21.5, 32.5, 43.5, 6500.25, 7600.25, 8700.25});
  const Tensor both = constant({1, 10, 100, 1000}, {1, 2, 2});
  CHECK(conv1d(x, both, {}, {.stride = 2, .padding = 1}).to_vector<double>() == Values{5010, 7632, 804});
  CHECK(conv1d(x, both, {}, {.dilation = 3}).to_vector<double>() == Values{8541});
}

TEST_CASE("conv1d: gradients with stride, padding, dilation and groups, of views and of none") {
  struct Case {
    Shape input;
    Shape weight;
    Conv1dGeometry geometry;
  };
  const Case cases[] = {
      {{2, 2, 7}, {3, 2, 3}, {}},
      {{1, 4, 8}, {2, 2, 3}, {.stride = 2, .padding = 2, .groups = 2}},
      {{2, 3, 9}, {6, 1, 2}, {.padding = 1, .dilation = 3, .groups = 3}},
      {{0, 2, 5}, {2, 2, 3}, {}},
  };
  for (const Case& c : cases) {
    CAPTURE(to_string(c.input));
    const auto f = [&](const Inputs& in) { return conv1d(in[0], in[1], in[2], c.geometry); };
    CHECK_NOTHROW(check_gradients(f, {small(c.input, 1), small(c.weight, 2), small({c.weight[0]}, 3)}));
    // [n, l, c] as models of language have it.
    const auto turned = [&](const Inputs& in) { return conv1d(transpose(in[0], 1, 2), in[1], {}, c.geometry); };
    CHECK_NOTHROW(check_gradients(turned, {small({c.input[0], c.input[2], c.input[1]}, 1), small(c.weight, 2)}));
  }
}

TEST_CASE("max_pool1d and avg_pool1d: values and gradients") {
  const Tensor x = constant({1, 5, 2, 4, 3, 0, 7, 8, 6, 9}, {1, 2, 5});
  CHECK(max_pool1d(x).to_vector<double>() == Values{5, 4, 7, 8});
  CHECK(max_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1}).to_vector<double>() == Values{5, 5, 4, 7, 8, 9});
  CHECK(avg_pool1d(x).to_vector<double>() == Values{3, 3, 3.5, 7});
  CHECK(avg_pool1d(x, {.stride = 4, .padding = 1}).to_vector<double>() == Values{0.5, 3.5, 0, 7.5});
  CHECK(avg_pool1d(x, {.stride = 4, .padding = 1, .count_include_pad = false}).to_vector<double>() ==
        Values{1, 3.5, 0, 7.5});
  for (const Shape& shape : {Shape{2, 3, 7}, Shape{0, 1, 4}}) {
    const auto maxima = [](const Inputs& in) {
      return max_pool1d(square(in[0]), {.kernel = 3, .stride = 2, .padding = 1});
    };
    const auto means = [](const Inputs& in) { return avg_pool1d(square(in[0]), {.kernel = 3, .stride = 1}); };
    CHECK_NOTHROW(check_gradients(maxima, {spread(shape, 1, true)}));
    CHECK_NOTHROW(check_gradients(means, {spread(shape, 2)}));
  }
}

TEST_CASE("sequences: what does not fit is named") {
  const Tensor x = small({1, 2, 4}, 1);
  CHECK_THROWS_WITH_AS(conv1d(small({2, 4}, 1), small({1, 2, 2}, 2)),
                       doctest::Contains("[conv1d] input [n, c, l] is needed, not [2, 4]"), ShapeError);
  CHECK_THROWS_WITH_AS(conv1d(x, small({1, 2, 1, 2}, 2)), doctest::Contains("[conv1d] weight"), ShapeError);
  CHECK_THROWS_WITH_AS(conv1d(x, small({1, 3, 2}, 2)), doctest::Contains("[conv1d]"), ShapeError);
  CHECK_THROWS_WITH_AS(conv1d(x, small({1, 2, 5}, 2)), doctest::Contains("[conv1d] the kernel"), ShapeError);
  CHECK_THROWS_WITH_AS(conv1d(x, small({3, 1, 2}, 2), {}, {.groups = 2}), doctest::Contains("[conv1d] 2 groups"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv1d(x, small({3, 2, 2}, 2), small({2}, 3)), doctest::Contains("bias"), ShapeError);
  CHECK_THROWS_WITH_AS(max_pool1d(x, {.kernel = 5}), doctest::Contains("[max_pool1d]"), ShapeError);
  CHECK_THROWS_WITH_AS(avg_pool1d(x, {.padding = 2}), doctest::Contains("[avg_pool1d]"), ShapeError);
  CHECK_THROWS_WITH_AS(avg_pool1d(small({2, 2}, 1)), doctest::Contains("[avg_pool1d] input"), ShapeError);
}

}  // namespace
}  // namespace tutti
