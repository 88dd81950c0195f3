// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tutti {
namespace {

struct Case {
  Shape input;
  Shape weight;
  Conv2dGeometry geometry;
};

const std::vector<Case> kCases = {
    {{2, 3, 8, 8}, {4, 3, 3, 3}, {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}}},
    {{3, 1, 5, 7}, {2, 1, 3, 2}, {}},
    {{1, 2, 9, 10}, {3, 2, 3, 3}, {.stride = {2, 3}, .padding = {1, 2}, .dilation = {1, 1}}},
    {{2, 2, 11, 9}, {2, 2, 3, 2}, {.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 3}}},
    {{5, 4, 6, 6}, {7, 4, 1, 1}, {}},
    {{2, 3, 20, 20}, {5, 3, 1, 1}, {}},
    {{9, 2, 4, 4}, {3, 2, 5, 5}, {.stride = {1, 1}, .padding = {2, 2}, .dilation = {1, 1}}},
    {{1, 1, 1, 1}, {1, 1, 3, 3}, {.stride = {1, 1}, .padding = {3, 3}, .dilation = {1, 1}}},
    {{2, 16, 14, 14}, {8, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}},
    {{3, 12, 6, 7}, {8, 3, 3, 2}, {.stride = {1, 2}, .padding = {1, 1}, .groups = 4}},
    {{2, 16, 12, 12}, {24, 8, 3, 3}, {.padding = {1, 1}, .groups = 2}},
    {{5, 12, 6, 6}, {12, 4, 1, 1}, {.groups = 3}},
};

/// Groups of channels on both sides of what is convolved without matrix products, on all kinds of axes.
std::vector<Case> grouped_cases() {
  std::vector<Case> cases;
  for (const std::int64_t in : {1, 2, 6})  // channels of a group
    for (const std::int64_t out : {1, 3})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t padding : {0, 1, 4})
          for (const std::int64_t dilation : {1, 2})
            for (const auto& kernel : {std::array<std::int64_t, 2>{3, 3}, {1, 1}, {2, 5}})
              cases.push_back({{2, 3 * in, 11, 9 + 7 * stride},
                               {3 * out, in, kernel[0], kernel[1]},
                               {.stride = {stride, (stride + 1) / 2},
                                .padding = {padding / 2, padding},
                                .dilation = {dilation, 3 - dilation},
                                .groups = 3}});
  cases.push_back({{1, 4, 20, 70}, {4, 1, 3, 3}, {.padding = {1, 1}, .groups = 4}});  // rows of several packs
  cases.push_back({{2, 4, 5, 70}, {4, 1, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}, .groups = 4}});
  cases.push_back({{1, 2, 1, 1}, {2, 1, 3, 3}, {.padding = {3, 3}, .groups = 2}});
  cases.push_back({{1, 2, 2, 3}, {2, 1, 1, 1}, {.stride = {2, 5}, .groups = 2}});  // elements that no tap reads
  return cases;
}

/// Whole numbers for 16 bits, whose sums are exact until the result is rounded.
template <class T> std::vector<T> some_numbers(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> pick(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (T& value : values)
    value = sizeof(T) == 2 ? static_cast<T>(std::round(3 * pick(engine))) : static_cast<T>(pick(engine));
  return values;
}

/// Calls `f(output place, input place, weight place)` for every product of the convolution.
template <class F> void for_each_product(const Case& c, const Shape& output, F&& f) {
  const std::int64_t out_channels = output[1] / c.geometry.groups;
  const auto at = [](const Shape& shape, std::int64_t a, std::int64_t b, std::int64_t y, std::int64_t x) {
    return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + y) * shape[3] + x);
  };
  const auto& g = c.geometry;
  for (std::int64_t n = 0; n < output[0]; ++n)
    for (std::int64_t k = 0; k < output[1]; ++k)
      for (std::int64_t y = 0; y < output[2]; ++y)
        for (std::int64_t x = 0; x < output[3]; ++x)
          for (std::int64_t channel = 0; channel < c.weight[1]; ++channel)
            for (std::int64_t r = 0; r < c.weight[2]; ++r)
              for (std::int64_t s = 0; s < c.weight[3]; ++s) {
                const std::int64_t in_y = y * g.stride[0] + r * g.dilation[0] - g.padding[0];
                const std::int64_t in_x = x * g.stride[1] + s * g.dilation[1] - g.padding[1];
                if (in_y >= 0 && in_y < c.input[2] && in_x >= 0 && in_x < c.input[3])
                  f(at(output, n, k, y, x), at(c.input, n, k / out_channels * c.weight[1] + channel, in_y, in_x),
                    at(c.weight, k, channel, r, s));
              }
}

template <class T> void check_close(const Array& found, const std::vector<double>& expected) {
  const std::vector<T> values = found.to_vector<T>();
  REQUIRE(values.size() == expected.size());
  const double tolerance = sizeof(T) == 2 ? 0 : std::is_same_v<T, float> ? 2e-5 : 1e-12;
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst =
        std::max(worst, std::abs(static_cast<double>(values[i]) - static_cast<double>(static_cast<T>(expected[i]))));
  CHECK(worst <= tolerance);
}

template <class T> void check_case(const Case& c) {
  CAPTURE(to_string(c.input));
  CAPTURE(to_string(c.weight));
  CAPTURE(c.geometry.stride[0]);
  CAPTURE(c.geometry.stride[1]);
  CAPTURE(c.geometry.padding[0]);
  CAPTURE(c.geometry.padding[1]);
  CAPTURE(c.geometry.dilation[0]);
  CAPTURE(c.geometry.dilation[1]);
  const auto x = some_numbers<T>(c.input, 1);
  const auto w = some_numbers<T>(c.weight, 2);
  const Array input = Array::from(x, c.input, test_device());
  const Array weight = Array::from(w, c.weight, test_device());
  const Array output = conv2d(c.geometry, input, weight);
  const auto dy = some_numbers<T>(output.shape(), 3);
  const Array gradient = Array::from(dy, output.shape(), test_device());

  std::vector<double> y(dy.size(), 0.0);
  std::vector<double> dx(x.size(), 0.0);
  std::vector<double> dw(w.size(), 0.0);
  for_each_product(c, output.shape(), [&](std::size_t out, std::size_t in, std::size_t tap) {
    y[out] += static_cast<double>(x[in]) * static_cast<double>(w[tap]);
    dx[in] += static_cast<double>(dy[out]) * static_cast<double>(w[tap]);
    dw[tap] += static_cast<double>(dy[out]) * static_cast<double>(x[in]);
  });
  check_close<T>(output, y);
  check_close<T>(conv2d_input_gradient(c.geometry, gradient, weight, c.input), dx);
  check_close<T>(conv2d_weight_gradient(c.geometry, gradient, input, c.weight), dw);
}

TEST_CASE_TEMPLATE("convolutions and their gradients agree with the plain sums", T, float, double, BFloat16, Float16) {
  for (const Case& c : kCases) check_case<T>(c);
}

TEST_CASE_TEMPLATE("convolutions of more weights than are summed at once agree with the plain sums", T, float,
                   BFloat16) {
  check_case<T>({{10, 130, 5, 9}, {240, 130, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}});
}

TEST_CASE_TEMPLATE("convolutions of groups of channels agree with the plain sums", T, float, double, BFloat16,
                   Float16) {
  for (const Case& c : grouped_cases()) check_case<T>(c);
}

TEST_CASE("convolutions of groups of channels: empty batches, and no channels") {
  const Conv2dGeometry geometry{.groups = 2};
  const auto zeros = [](const Shape& shape) { return Array::full(shape, 1, DType::f32, test_device()); };
  CHECK(conv2d(geometry, zeros({0, 4, 5, 5}), zeros({2, 2, 3, 3})).shape() == Shape{0, 2, 3, 3});
  CHECK(sum(conv2d_weight_gradient(geometry, zeros({0, 2, 3, 3}), zeros({0, 4, 5, 5}), {2, 2, 3, 3})).item<float>() ==
        0);
  CHECK(sum(conv2d(geometry, zeros({1, 0, 5, 5}), zeros({2, 0, 3, 3}))).item<float>() == 0);
}

TEST_CASE("convolutions of groups of channels: of infinities and NaN, each stays in its group") {
  const Conv2dGeometry geometry{.padding = {1, 1}, .groups = 2};
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(2 * 20 * 20, 1.0F);
    values[5] = odd;
    values[19] = odd;  // the last of a row
    const Array input = Array::from(values, {1, 2, 20, 20}, test_device());
    const Array weight = Array::full({2, 1, 3, 3}, 1, DType::f32, test_device());
    const std::vector<float> y = conv2d(geometry, input, weight).to_vector<float>();
    std::int64_t found = 0;
    for (std::size_t i = 0; i < y.size(); ++i) found += std::isfinite(y[i]) ? 0 : 1;
    CHECK(found == 10);  // what 3 x 3 windows over the two see inside the image
    const Array gradient = Array::full({1, 2, 20, 20}, 1, DType::f32, test_device());
    const auto dw = conv2d_weight_gradient(geometry, gradient, input, weight.shape()).to_vector<float>();
    for (std::size_t i = 9; i < 18; ++i) CHECK(std::isfinite(dw[i]));
    const std::vector<float> dx = conv2d_input_gradient(geometry, input, weight, input.shape()).to_vector<float>();
    found = 0;
    for (std::size_t i = 0; i < dx.size(); ++i) found += std::isfinite(dx[i]) ? 0 : 1;
    CHECK(found == 10);
  }
}

void check_threads(const Case& c) {
  const Array input = Array::from(some_numbers<float>(c.input, 1), c.input, test_device());
  const Array weight = Array::from(some_numbers<float>(c.weight, 2), c.weight, test_device());
  const auto all = [&] {
    const Array y = conv2d(c.geometry, input, weight);
    std::vector<float> values = y.to_vector<float>();
    for (const Array& gradient : {conv2d_input_gradient(c.geometry, y, weight, c.input),
                                  conv2d_weight_gradient(c.geometry, y, input, c.weight)})
      for (const float value : gradient.to_vector<float>()) values.push_back(value);
    return values;
  };
  const std::vector<float> expected = all();
  for (const int threads : {2, 3}) {
    set_cpu_threads(cpu(), threads);
    CHECK(std::memcmp(all().data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE("convolutions do not depend on the number of threads" * doctest::test_suite("cpu")) {
  check_threads({{21, 8, 8, 8}, {16, 8, 3, 3}, {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}}});
  check_threads({{21, 8, 8, 8}, {16, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}});
  check_threads({{21, 8, 8, 8}, {16, 4, 3, 3}, {.padding = {1, 1}, .groups = 2}});
  check_threads({{10, 130, 5, 9}, {240, 130, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}});
}

}  // namespace
}  // namespace tutti
