// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
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
};

template <class T> std::vector<T> some_numbers(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> pick(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (T& value : values) value = static_cast<T>(pick(engine));
  return values;
}

/// Calls `f(output place, input place, weight place)` for every product of the convolution.
template <class F> void for_each_product(const Case& c, const Shape& output, F&& f) {
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
                  f(at(output, n, k, y, x), at(c.input, n, channel, in_y, in_x), at(c.weight, k, channel, r, s));
              }
}

template <class T> void check_close(const Array& found, const std::vector<double>& expected) {
  const std::vector<T> values = found.to_vector<T>();
  REQUIRE(values.size() == expected.size());
  const double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected[i]));
  CHECK(worst <= tolerance);
}

TEST_CASE_TEMPLATE("convolutions and their gradients agree with the plain sums", T, float, double) {
  for (const Case& c : kCases) {
    CAPTURE(to_string(c.input));
    CAPTURE(to_string(c.weight));
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
}

TEST_CASE("convolutions do not depend on the number of threads" * doctest::test_suite("cpu")) {
  const Case c{{21, 8, 8, 8}, {16, 8, 3, 3}, {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}}};
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

}  // namespace
}  // namespace tutti
