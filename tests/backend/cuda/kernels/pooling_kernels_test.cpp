// SPDX-License-Identifier: Apache-2.0
// The kernels of pooling on the host against the CPU backend: to the bit.
#include <tutti/backend/cuda/kernels/pooling.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::PooledAxis;
using cuda_kernels::Pooling;
using on_host::DeviceArray;

Pooling pooling_of(const Pool2dGeometry& given, const Shape& images, const Shape& maxima) {
  const Pool2dGeometry geometry = with_stride(given);  // as before each backend's call
  const auto axis = [&](std::size_t i) {
    return PooledAxis{images[i + 2], maxima[i + 2], geometry.kernel[i], geometry.stride[i], geometry.padding[i]};
  };
  return {images[0] * images[1], axis(0), axis(1)};
}

void check(const Pool2dGeometry& geometry, const Array& images, const Array& upstream_source) {
  CAPTURE(to_string(images.shape()));
  CAPTURE(to_string(images.dtype()));
  const auto [maxima, places] = max_pool2d(geometry, images);
  const Pooling pooling = pooling_of(geometry, images.shape(), maxima.shape());
  const DeviceArray from(images);
  const Shape& pooled = maxima.shape();
  const auto forward = [&](bool want_places) {
    return on_host::in_every_order([&] {
      DeviceArray values = DeviceArray::unwritten(maxima.bytes());
      DeviceArray found = DeviceArray::unwritten(places.bytes());
      cuda_kernels::launch_max_pool2d(nullptr, images.dtype(), pooling, from.data(), values.data(),
                                      found.as<std::int64_t>());
      return want_places ? found.read(pooled, DType::i64) : values.read(pooled, images.dtype());
    });
  };
  CHECK(on_host::differences(forward(false), maxima, 0) == 0);
  CHECK(on_host::same_bits(forward(true), places));

  const Array upstream = as_strided(upstream_source, pooled, contiguous_strides(pooled), 0);
  const DeviceArray gradient(upstream);
  const DeviceArray chosen(places);
  const Array passed_back = on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(images.bytes());
    cuda_kernels::launch_max_pool2d_gradient(nullptr, images.dtype(), pooling, gradient.data(),
                                             chosen.as<std::int64_t>(), to.data());
    return to.read(images.shape(), images.dtype());
  });
  CHECK(on_host::differences(passed_back, max_pool2d_gradient(geometry, upstream, places, images.shape()), 0) == 0);
}

void check_means(const AvgPool2dGeometry& geometry, const Array& images) {
  CAPTURE(to_string(images.shape()));
  CAPTURE(geometry.count_include_pad);
  const Array means = avg_pool2d(geometry, images);
  const cuda_kernels::MeanPooling how{pooling_of(geometry.windows(), images.shape(), means.shape()),
                                      geometry.count_include_pad};
  const DeviceArray from(images);
  const Array averaged = on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(means.bytes());
    cuda_kernels::launch_avg_pool2d(nullptr, images.dtype(), how, from.data(), to.data());
    return to.read(means.shape(), images.dtype());
  });
  CHECK(on_host::differences(averaged, means, 0) == 0);

  const DeviceArray gradient(means);
  const Array shared_out = on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(images.bytes());
    cuda_kernels::launch_avg_pool2d_gradient(nullptr, images.dtype(), how, gradient.data(), to.data());
    return to.read(images.shape(), images.dtype());
  });
  CHECK(on_host::differences(shared_out, avg_pool2d_gradient(geometry, means, images.shape()), 0) == 0);
}

const Pool2dGeometry kGeometries[] = {
    {},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 0}},  // windows overlap
    {.kernel = {2, 3}, .stride = {3, 4}, .padding = {0, 1}},  // elements in no window
    {.kernel = {1, 1}, .stride = {1, 1}},
};

TEST_CASE("max pooling and its gradient, of odd ones among the numbers too") {
  samples::RandomViews views(31);
  for (const Pool2dGeometry& geometry : kGeometries)
    for (const Shape& shape : {Shape{2, 3, 8, 9}, Shape{1, 1, 3, 3}, Shape{3, 2, 15, 11}})
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Array images = Array::empty(shape, dtype, cpu());
        const Array upstream = Array::empty({element_count(shape) * 2}, dtype, cpu());
        views.fill(images);
        views.fill_ordinary(upstream);
        check(geometry, images, upstream);
        check(geometry, Array::full(shape, 1, dtype, cpu()), upstream);  // all equal
      }
}

TEST_CASE("average pooling and its gradient") {
  samples::RandomViews views(39);
  for (const Pool2dGeometry& windows : kGeometries)
    for (const bool count_include_pad : {false, true})
      for (const Shape& shape : {Shape{2, 3, 8, 9}, Shape{1, 1, 3, 3}, Shape{3, 2, 15, 11}})
        for (const DType dtype : {DType::f32, DType::f64}) {
          const Array images = Array::empty(shape, dtype, cpu());
          views.fill_ordinary(images);
          check_means({windows.kernel, windows.stride, windows.padding, count_include_pad}, images);
        }
}

TEST_CASE("pooling with fewer blocks than images need") {
  samples::RandomViews views(37);
  const Array images = Array::empty({3, 3, 15, 15}, DType::f32, cpu());
  const Array upstream = Array::empty({images.size()}, DType::f32, cpu());
  views.fill(images);
  views.fill_ordinary(upstream);
  on_host::schedule.most_blocks = 2;
  check({}, images, upstream);
  views.fill_ordinary(images);
  check_means({}, images);
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
