// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/winograd.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/processor/instruction_sets.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace tutti {
namespace {

struct Filtered {
  Shape input;
  Shape weight;
  Conv2dGeometry geometry;

  ConvolutionSizes of_group() const {
    const std::int64_t height = input[2] + 2 * geometry.padding[0] - 2;
    const std::int64_t width = input[3] + 2 * geometry.padding[1] - 2;
    return ConvolutionSizes(geometry, input, weight, {input[0], weight[0], height, width}).of_group();
  }
};

// Tiles that end with the image and beyond; channels that fill vectors and do not; several blocks; one block, and
// weights in parts; groups; paddings whose gradients have others.
const std::vector<Filtered>& cases() {
  static const std::vector<Filtered> all{{{16, 32, 8, 8}, {32, 32, 3, 3}, {.padding = {1, 1}}},
                                         {{6, 33, 14, 15}, {50, 33, 3, 3}, {.padding = {1, 1}}},
                                         {{3, 48, 31, 17}, {32, 48, 3, 3}, {.padding = {0, 0}}},
                                         {{6, 40, 12, 18}, {37, 40, 3, 3}, {.padding = {2, 1}}},
                                         {{6, 32, 15, 16}, {64, 32, 3, 3}, {.padding = {1, 2}}},
                                         {{2, 36, 40, 70}, {33, 36, 3, 3}, {.padding = {1, 0}}},
                                         {{32, 64, 4, 4}, {400, 64, 3, 3}, {.padding = {1, 1}}},
                                         {{32, 400, 4, 4}, {64, 400, 3, 3}, {.padding = {1, 1}}},
                                         {{5, 32, 13, 64}, {96, 32, 3, 3}, {.padding = {1, 1}}},
                                         {{2, 96, 16, 20}, {128, 48, 3, 3}, {.padding = {1, 1}, .groups = 2}},
                                         {{33, 64, 6, 4}, {64, 64, 3, 3}, {.padding = {2, 2}}}};
  return all;
}

/// Between -1 and 1, as a sequence of its own for each seed.
template <class T> Array numbers(const Shape& shape, unsigned seed) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (T& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<T>(static_cast<float>(seed >> 8U) / 8388608.0F - 1.0F);
  }
  return Array::from(values, shape, cpu());
}

/// The largest difference from what f64 gives, which is summed tap by tap, as a part of the root mean square.
template <class T> void check_close(const char* what, const Array& result, const Array& exact) {
  const double precision = std::is_same_v<T, float> ? 0 : std::is_same_v<T, Float16> ? 0x1p-11 : 0x1p-8;
  const std::vector<T> y = result.to_vector<T>();
  const std::vector<double> expected = exact.to_vector<double>();
  REQUIRE(y.size() == expected.size());
  double squares = 0;
  for (const double value : expected) squares += value * value;
  const double scale = std::sqrt(squares / static_cast<double>(expected.size()));
  double most = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double error = std::abs(static_cast<double>(y[i]) - expected[i]) - precision * std::abs(expected[i]);
    most = std::isnan(error) ? INFINITY : std::max(most, error);
  }
  CAPTURE(what);
  CHECK(most / scale < 2e-5);
}

template <class T> void check_case(const Filtered& c) {
  const Array x = numbers<T>(c.input, 1);
  const Array w = numbers<T>(c.weight, 2);
  const Array wide_x = x.cast(DType::f64);
  const Array wide_w = w.cast(DType::f64);
  const Array exact = conv2d(c.geometry, wide_x, wide_w);
  check_close<T>("forward", conv2d(c.geometry, x, w), exact);
  const Array dy = numbers<T>(exact.shape(), 3);
  const Array wide_dy = dy.cast(DType::f64);
  check_close<T>("images", conv2d_input_gradient(c.geometry, dy, w, c.input),
                 conv2d_input_gradient(c.geometry, wide_dy, wide_w, c.input));
  check_close<T>("weight", conv2d_weight_gradient(c.geometry, dy, x, c.weight),
                 conv2d_weight_gradient(c.geometry, wide_dy, wide_x, c.weight));
}

TEST_CASE_TEMPLATE("Winograd's convolutions are those of f64 but for rounding", T, float, BFloat16, Float16) {
  const bool multiplies_bf16 = std::is_same_v<T, BFloat16> && products_of_bf16() != Bf16Products::widened;
  for (const Filtered& c : cases()) {
    CAPTURE(to_string(c.input));
    CAPTURE(to_string(c.weight));
    CHECK(WinogradConvolution<T>::suits(c.of_group()) == (uses_winograd() && !multiplies_bf16));
    check_case<T>(c);
  }
}

TEST_CASE("Winograd's convolutions do not depend on the number of threads") {
  for (const Filtered& c : cases()) {
    const Array x = numbers<float>(c.input, 1);
    const Array w = numbers<float>(c.weight, 2);
    const auto all = [&] {
      const Array y = conv2d(c.geometry, x, w);
      std::vector<float> values = y.to_vector<float>();
      for (const Array& gradient :
           {conv2d_input_gradient(c.geometry, y, w, c.input), conv2d_weight_gradient(c.geometry, y, x, c.weight)})
        for (const float value : gradient.to_vector<float>()) values.push_back(value);
      return values;
    };
    const std::vector<float> expected = all();
    const int before = cpu_threads(cpu());
    for (const int threads : {2, 3}) {
      set_cpu_threads(cpu(), threads);
      CHECK(std::memcmp(all().data(), expected.data(), expected.size() * sizeof(float)) == 0);
    }
    set_cpu_threads(cpu(), before);
  }
}

TEST_CASE("Winograd's convolutions: what is not finite stays in the tiles that see it") {
  const Filtered c{{2, 32, 16, 16}, {32, 32, 3, 3}, {.padding = {1, 1}}};
  std::vector<float> values(static_cast<std::size_t>(element_count(c.input)), 1.0F);
  values[5 * 16 + 5] = std::numeric_limits<float>::infinity();  // of the first image
  const Array x = Array::from(values, c.input, cpu());
  const Array w = Array::full(c.weight, 1, DType::f32, cpu());
  const std::vector<float> y = conv2d(c.geometry, x, w).to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / 16 % 16;
    const std::size_t column = i % 16;
    const bool touched = i / (32 * 256) == 0 && row >= 4 && row < 8 && column >= 4 && column < 8;
    if (!touched) REQUIRE(std::isfinite(y[i]));
    if (i / (32 * 256) == 0 && row >= 4 && row < 7 && column >= 4 && column < 7) REQUIRE_FALSE(std::isfinite(y[i]));
  }
}

TEST_CASE("Winograd's convolutions are left where they take longer, and to f32 and less") {
  const auto suits = [](const Shape& input, const Shape& weight, const Conv2dGeometry& geometry) {
    return WinogradConvolution<float>::suits(Filtered{input, weight, geometry}.of_group());
  };
  CHECK_FALSE(suits({64, 1, 28, 28}, {32, 1, 3, 3}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({1, 256, 14, 14}, {256, 256, 3, 3}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({0, 64, 14, 14}, {64, 64, 3, 3}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({1, 64, 8, 1000000}, {64, 64, 3, 3}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({1, 512, 4, 4}, {512, 512, 3, 3}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({8, 64, 28, 28}, {64, 64, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}));
  CHECK_FALSE(suits({8, 64, 28, 28}, {64, 64, 3, 3}, {.padding = {1, 1}, .dilation = {2, 2}}));
  CHECK_FALSE(suits({8, 64, 28, 28}, {64, 64, 5, 5}, {.padding = {1, 1}}));
  CHECK_FALSE(suits({8, 64, 28, 28}, {64, 1, 3, 3}, {.padding = {1, 1}, .groups = 64}));
}

}  // namespace
}  // namespace tutti
