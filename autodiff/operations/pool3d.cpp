// SPDX-License-Identifier: Apache-2.0
// Pooling of volumes: of each slice as an image, and then along the depth.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/autodiff/tensor/operation_scope.h>

namespace tutti {

namespace {

/// Volumes [n, c, d, h, w] to volumes of shape `to`: `planes` pools [n, c d, h, w], `depths` [n, c, d, h' w'].
template <class Planes, class Depths>
Tensor pool_in_turn(const Tensor& x, const Shape& to, Planes planes, Depths depths) {
  const Shape& from = x.shape();
  const Tensor slices = planes(reshape(x, {from[0], from[1] * from[2], from[3], from[4]}));
  return reshape(depths(reshape(slices, {from[0], from[1], from[2], to[3] * to[4]})), to);
}

}  // namespace

Tensor max_pool3d(const Tensor& input, const Pool3dGeometry& geometry) {
  const OperationScope scope("max_pool3d", input);
  const auto [kernel, stride, padding] = with_stride(geometry);
  const Shape to = pooling_shape("max_pool3d", Dims(kernel), Dims(stride), Dims(padding), input.shape());
  const Pool2dGeometry plane{{kernel[1], kernel[2]}, {stride[1], stride[2]}, {padding[1], padding[2]}};
  const Pool2dGeometry depth{{kernel[0], 1}, {stride[0], 1}, {padding[0], 0}};
  return pool_in_turn(
      input, to, [&](const Tensor& x) { return max_pool2d(x, plane); },
      [&](const Tensor& x) { return max_pool2d(x, depth); });
}

Tensor avg_pool3d(const Tensor& input, const AvgPool3dGeometry& geometry) {
  const OperationScope scope("avg_pool3d", input);
  const auto [kernel, stride, padding, counted] = with_stride(geometry);
  const Shape to = pooling_shape("avg_pool3d", Dims(kernel), Dims(stride), Dims(padding), input.shape());
  const AvgPool2dGeometry plane{{kernel[1], kernel[2]}, {stride[1], stride[2]}, {padding[1], padding[2]}, counted};
  const AvgPool2dGeometry depth{{kernel[0], 1}, {stride[0], 1}, {padding[0], 0}, counted};
  const Tensor means = pool_in_turn(
      widened(input), to, [&](const Tensor& x) { return avg_pool2d(x, plane); },
      [&](const Tensor& x) { return avg_pool2d(x, depth); });
  return cast(means, input.dtype());
}

}  // namespace tutti
