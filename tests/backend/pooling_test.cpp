// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("NaN wins a window") {
  const Array x = Array::from(Floats{5, std::nanf(""), 9, std::nanf("")}, {1, 1, 2, 2}, test_device());
  const auto [maxima, index] = max_pool2d({}, x);
  CHECK(std::isnan(maxima.item<float>()));
  CHECK(index.item<std::int64_t>() == 1);
}

}  // namespace
}  // namespace tutti
