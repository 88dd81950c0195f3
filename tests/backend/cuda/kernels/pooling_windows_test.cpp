// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/parts/best_element.h>
#include <tutti/backend/cuda/kernels/parts/pooling_windows.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti::cuda_kernels {
namespace {

TEST_CASE("pooling windows: those over an element are those that it lies in") {
  for (const std::int64_t kernel : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3, 7})
      for (std::int64_t padding = 0; padding <= kernel / 2; ++padding)
        for (std::int64_t length = kernel; length < 12; ++length) {
          const PooledAxis axis{length, (length + 2 * padding - kernel) / stride + 1, kernel, stride, padding};
          for (std::int64_t element = 0; element < length; ++element) {
            const Span over = axis.windows_over(element);
            for (std::int64_t i = 0; i < axis.out_length; ++i) {
              const Span window = axis.window(i);
              CHECK((i >= over.begin && i < over.end) == (element >= window.begin && element < window.end));
            }
          }
        }
}

TEST_CASE("pooling windows: maxima and what is passed back, as on the CPU") {
  const Pool2dGeometry geometry{{3, 2}, {2, 1}, {1, 1}};
  const Shape shape{2, 3, 7, 6};
  std::vector<double> values(252);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 37 % 19);
  values[40] = std::numeric_limits<double>::quiet_NaN();
  const Array input = Array::from(values, shape, Device{});
  const auto [maxima, index] = max_pool2d(geometry, input);
  const Array gradient = Array::arange(maxima.size(), DType::f64, Device{}).reshape(maxima.shape());
  const Array expected = max_pool2d_gradient(geometry, gradient, index, shape);
  synchronize(Device{});  // the memory itself is read
  const std::int64_t out_height = maxima.length(2);
  const std::int64_t out_width = maxima.length(3);
  const Pooling pooling{6, {7, out_height, 3, 2, 1}, {6, out_width, 2, 1, 1}};
  for (std::int64_t plane = 0; plane < 6; ++plane) {
    const std::int64_t windows = plane * out_height * out_width;
    for (std::int64_t i = 0; i < out_height * out_width; ++i)
      CHECK(largest_in_window(pooling, input.data<double>() + plane * 42, i / out_width, i % out_width).place ==
            index.data<std::int64_t>()[windows + i]);
    for (std::int64_t i = 0; i < 42; ++i)
      CHECK(passed_back(pooling, gradient.data<double>() + windows, index.data<std::int64_t>() + windows, i / 6,
                        i % 6) == expected.data<double>()[plane * 42 + i]);
  }
}

TEST_CASE("pooling windows: means and their shares, as on the CPU") {
  const Shape shape{2, 3, 7, 6};
  for (const bool count_include_pad : {false, true}) {
    const AvgPool2dGeometry geometry{{3, 2}, {2, 1}, {1, 1}, count_include_pad};
    const Array input = Array::arange(252, DType::f64, Device{}).reshape(shape);
    const Array means = avg_pool2d(geometry, input);
    const Array expected = avg_pool2d_gradient(geometry, means, shape);
    synchronize(Device{});  // the memory itself is read
    const std::int64_t out_width = means.length(3);
    const MeanPooling how{{6, {7, means.length(2), 3, 2, 1}, {6, out_width, 2, 1, 1}}, count_include_pad};
    const std::int64_t windows = how.windows.windows();
    for (std::int64_t plane = 0; plane < 6; ++plane) {
      for (std::int64_t i = 0; i < windows; ++i)
        CHECK(mean_of_window(how, input.data<double>() + plane * 42, i / out_width, i % out_width) ==
              means.data<double>()[plane * windows + i]);
      for (std::int64_t i = 0; i < 42; ++i)
        CHECK(shares_passed_back(how, means.data<double>() + plane * windows, i / 6, i % 6) ==
              expected.data<double>()[plane * 42 + i]);
    }
  }
}

TEST_CASE("best element: the first of equals, whatever the order of joining; NaN wins") {
  using Best = BestElement<float, true>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Best low{1.0F, 0};
  const Best high{2.0F, 5};
  const Best again{2.0F, 3};
  CHECK(Best::combine(low, high).place == 5);
  CHECK(Best::combine(high, again).place == 3);
  CHECK(Best::combine(again, high).place == 3);
  CHECK(Best::combine({nan, 7}, high).place == 7);
  CHECK(Best::combine(high, {nan, 7}).place == 7);
  CHECK(Best::combine({nan, 9}, {nan, 7}).place == 7);
  CHECK(Best::combine({}, low).place == 0);
  CHECK(Best::combine(low, {}).place == 0);
  CHECK(BestElement<float, false>::combine({1.0F, 0}, {2.0F, 5}).place == 0);
}

}  // namespace
}  // namespace tutti::cuda_kernels

TEST_SUITE_END();
