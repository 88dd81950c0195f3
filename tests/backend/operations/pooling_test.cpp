// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Floats = std::vector<float>;
using Places = std::vector<std::int64_t>;

TEST_CASE("max_pool2d finds the largest of each window and where it stood") {
  const Array x = Array::from(Floats{1, 2, 5, 3,    //
                                     4, 0, 5, 1,    //
                                     -1, -2, 7, 8,  //
                                     -3, -4, 9, 6},
                              {1, 1, 4, 4}, test_device());
  const auto [maxima, index] = max_pool2d({}, x);
  CHECK(maxima.to_vector<float>() == Floats{4, 5, -1, 9});
  CHECK(index.to_vector<std::int64_t>() == Places{4, 2, 8, 14});
  const Array gradient = Array::from(Floats{1, 2, 3, 4}, {1, 1, 2, 2}, test_device());
  CHECK(max_pool2d_gradient({}, gradient, index, x.shape()).to_vector<float>() ==
        Floats{0, 0, 2, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 0});
}

TEST_CASE("padding is never chosen, and overlapping windows add their gradients") {
  const Array x = Array::from(Floats{-1, -2, -3, -4}, {1, 1, 2, 2}, test_device());
  const Pool2dGeometry geometry{.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}};
  const auto [maxima, index] = max_pool2d(geometry, x);
  CHECK(maxima.shape() == Shape{1, 1, 3, 3});
  CHECK(maxima.to_vector<float>() == Floats{-1, -1, -2, -1, -1, -2, -3, -3, -4});
  const Array gradient = Array::full({1, 1, 3, 3}, 1, DType::f32, test_device());
  CHECK(max_pool2d_gradient(geometry, gradient, index, x.shape()).to_vector<float>() == Floats{4, 2, 2, 1});
}

TEST_CASE("planes are pooled apart, in windows that need not be square") {
  const Array x = Array::arange(2 * 3 * 5 * 7, DType::f64, test_device()).reshape({2, 3, 5, 7});
  const Pool2dGeometry geometry{.kernel = {3, 2}, .stride = {2, 3}, .padding = {0, 0}};
  const auto [maxima, index] = max_pool2d(geometry, x);
  CHECK(maxima.shape() == Shape{2, 3, 2, 2});
  const auto values = maxima.to_vector<double>();
  const auto places = index.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t plane = i / 4;
    const std::size_t place = (i / 2 % 2 * 2 + 2) * 7 + i % 2 * 3 + 1;
    CHECK(places[i] == static_cast<std::int64_t>(place));
    CHECK(values[i] == static_cast<double>(plane * 35 + place));
  }
}

TEST_CASE("windows of 2 x 2 of all widths: the first of equals is chosen, and NaN wins") {
  std::mt19937 engine(7);
  const auto check = [&]<class T>(std::type_identity<T>) {
    for (std::int64_t width = 2; width <= 71; ++width) {
      std::vector<T> x(static_cast<std::size_t>(2 * 5 * width));
      for (T& value : x) {
        const auto drawn = engine() % 12U;
        value = drawn == 0 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(drawn % 5U);
      }
      const std::pair<Array, Array> pooled = max_pool2d({}, Array::from(x, {1, 2, 5, width}, test_device()));
      const std::vector<T> values = pooled.first.to_vector<T>();
      const auto places = pooled.second.to_vector<std::int64_t>();
      std::size_t window = 0;
      for (std::int64_t plane = 0; plane < 2; ++plane)
        for (std::int64_t y = 0; y < 2; ++y)
          for (std::int64_t column = 0; column < width / 2; ++column, ++window) {
            std::int64_t chosen = 2 * y * width + 2 * column;
            const auto at = [&](std::int64_t place) { return x[static_cast<std::size_t>(plane * 5 * width + place)]; };
            for (const std::int64_t other : {chosen + 1, chosen + width, chosen + width + 1})
              if (!std::isnan(at(chosen)) && (at(other) > at(chosen) || std::isnan(at(other)))) chosen = other;
            CHECK(places[window] == chosen);
            CHECK((values[window] == at(chosen) || (std::isnan(values[window]) && std::isnan(at(chosen)))));
          }
    }
  };
  check(std::type_identity<float>{});
  check(std::type_identity<double>{});
}

/// The mean of each window and its gradient by definition.
struct PlainMeans {
  std::vector<double> means;
  std::vector<double> gradient;

  PlainMeans(const AvgPool2dGeometry& g, const std::vector<double>& x, const Shape& input,
             const std::vector<double>& dy, const Shape& output)
      : gradient(x.size(), 0.0) {
    for (std::int64_t plane = 0; plane < input[0] * input[1]; ++plane)
      for (std::int64_t y = 0; y < output[2]; ++y)
        for (std::int64_t column = 0; column < output[3]; ++column) {
          std::vector<std::size_t> seen;
          for (std::int64_t r = 0; r < g.kernel[0]; ++r)
            for (std::int64_t s = 0; s < g.kernel[1]; ++s) {
              const std::int64_t in_y = y * g.stride[0] + r - g.padding[0];
              const std::int64_t in_x = column * g.stride[1] + s - g.padding[1];
              if (in_y >= 0 && in_y < input[2] && in_x >= 0 && in_x < input[3])
                seen.push_back(static_cast<std::size_t>((plane * input[2] + in_y) * input[3] + in_x));
            }
          const double count =
              g.count_include_pad ? static_cast<double>(g.kernel[0] * g.kernel[1]) : static_cast<double>(seen.size());
          double sum = 0;
          for (const std::size_t place : seen) {
            sum += x[place];
            gradient[place] += dy[means.size()] / count;
          }
          means.push_back(sum / count);
        }
  }
};

TEST_CASE("avg_pool2d and its gradient agree with the plain means") {
  for (const auto& kernel : {std::array<std::int64_t, 2>{2, 2}, {3, 2}, {1, 4}, {5, 5}})
    for (const std::int64_t stride : {1, 2, 6})
      for (const bool padded : {false, true})
        for (const bool count_include_pad : {false, true})
          for (const Shape& shape : {Shape{2, 3, 8, 9}, Shape{1, 1, 5, 5}, Shape{0, 2, 6, 6}}) {
            const std::array<std::int64_t, 2> padding{padded ? kernel[0] / 2 : 0, padded ? kernel[1] / 2 : 0};
            const AvgPool2dGeometry geometry{kernel, {stride, stride + 1}, padding, count_include_pad};
            CAPTURE(kernel[0]);
            CAPTURE(kernel[1]);
            CAPTURE(stride);
            CAPTURE(to_string(shape));
            const Array x = Array::arange(element_count(shape), DType::f64, test_device()).reshape(shape);
            const Array means = avg_pool2d(geometry, x);
            const Array dy = Array::arange(means.size(), DType::f64, test_device()).reshape(means.shape());
            const PlainMeans expected(geometry, x.to_vector<double>(), shape, dy.to_vector<double>(), means.shape());
            const auto close = [](const Array& found, const std::vector<double>& wanted) {
              const std::vector<double> values = found.to_vector<double>();
              REQUIRE(values.size() == wanted.size());
              double worst = 0;
              for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(values[i] - wanted[i]));
              CHECK(worst < 1e-10);
            };
            close(means, expected.means);
            close(avg_pool2d_gradient(geometry, dy, shape), expected.gradient);
          }
}

TEST_CASE("avg_pool2d of a view, and of narrow types") {
  const Array x = Array::from(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 4, 2}, test_device()).transpose(2, 3);
  CHECK(avg_pool2d({}, x).to_vector<float>() == Floats{2.5F, 6.5F});
  const Array narrow = x.cast(DType::bf16);
  CHECK(avg_pool2d({}, narrow).dtype() == DType::bf16);
  CHECK(avg_pool2d({}, narrow).cast(DType::f32).to_vector<float>() == Floats{2.5F, 6.5F});
}

TEST_CASE("NaN wins a window") {
  const Array x = Array::from(Floats{5, std::nanf(""), 9, std::nanf("")}, {1, 1, 2, 2}, test_device());
  const auto [maxima, index] = max_pool2d({}, x);
  CHECK(std::isnan(maxima.item<float>()));
  CHECK(index.item<std::int64_t>() == 1);
}

}  // namespace
}  // namespace tutti
