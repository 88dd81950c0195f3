// SPDX-License-Identifier: Apache-2.0
// Convolution of volumes as that of images whose channels are those of the slices that a kernel meets.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

/// The slices that windows along the depth meet: slice `tap` of window i is i stride - padding + tap dilation of the
/// volume, zeros outside of it.
struct DepthWindows {
  Shape volumes;  // [n, c, d, h, w]
  std::int64_t count;
  std::int64_t taps;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;

  Shape shape() const { return {volumes[0], count, volumes[1], taps, volumes[3], volumes[4]}; }

  /// Calls f(part of the volumes, part of the windows), both [n, m, c, h, w], for each tap.
  template <class F> void for_each_tap(const Array& all, const Array& windows, F&& f) const {
    const Array slices = all.permute({0, 2, 1, 3, 4});
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t shift = tap * dilation - padding;
      const std::int64_t first = shift < 0 ? (-shift - 1) / stride + 1 : 0;
      const std::int64_t room = volumes[2] - 1 - shift;  // the last window's slice is at most there
      const std::int64_t last = std::min(count - 1, room < 0 ? -1 : room / stride);
      if (first > last) continue;
      f(slices.slice(1, first * stride + shift, last * stride + shift + 1, stride),
        windows.slice(3, tap, tap + 1).squeeze(3).slice(1, first, last + 1));
    }
  }
};

Tensor slices_to_volumes(const DepthWindows&, const Tensor& windows);

// Each is the other's gradient.

/// [n, c, d, h, w] -> [n, count, c, taps, h, w]
Tensor slices_of_windows(const DepthWindows& depth, const Tensor& volumes) {
  Array windows = Array::zeros(depth.shape(), volumes.dtype(), volumes.device());
  if (windows.size() > 0)
    depth.for_each_tap(volumes.array(), windows, [](const Array& from, Array to) { to.copy_from(from); });
  const Tensor inputs[] = {volumes};
  return record("conv3d_windows", std::move(windows), inputs, [&] {
    return [depth](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, slices_to_volumes(depth, dy));
    };
  });
}

Tensor slices_to_volumes(const DepthWindows& depth, const Tensor& windows) {
  const Array total = Array::zeros(depth.volumes, computed_in(windows.dtype()), windows.device());
  if (windows.size() > 0)
    depth.for_each_tap(total, windows.array(),
                       [](Array to, const Array& from) { to.copy_from(apply(elementwise::Add{}, to, widened(from))); });
  const Tensor inputs[] = {windows};
  return record("conv3d_volumes", total.cast(windows.dtype()), inputs, [&] {
    return [depth](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, slices_of_windows(depth, dy));
    };
  });
}

std::array<std::int64_t, 2> of_images(const std::array<std::int64_t, 3>& numbers) { return {numbers[1], numbers[2]}; }

/// Depth and channels of a kernel as its channels: [k, c, q, r, s] -> [k, c q, r, s], a view.
Tensor flat_kernels(const Tensor& weight) {
  const Shape& shape = weight.shape();
  return reshape(weight, {shape[0], shape[1] * shape[2], shape[3], shape[4]});
}

/// Before windows are copied.
void check_operands(std::string_view operation, const Tensor& input, const Tensor& weight) {
  checks::require_alike(operation, input.array(), weight.array());
  checks::require_floating(operation, input.array());
}

}  // namespace

Tensor conv3d(const Tensor& volumes, const Tensor& kernels, const Tensor& bias, const Conv3dGeometry& geometry) {
  constexpr std::string_view kName = "conv3d";
  const OperationScope scope(kName, volumes, kernels, bias);
  const Tensor input = autocast(kName, volumes);
  const Tensor weight = autocast(kName, kernels);
  check_operands(kName, input, weight);
  const auto& [stride, padding, dilation, groups] = geometry;
  const Shape to = convolution_shape(kName, axes_of(geometry), input.shape(), weight.shape());
  if (bias.defined()) check_bias_shape(kName, bias.shape(), to[1]);
  const DepthWindows depth{input.shape(), to[2], weight.length(2), stride[0], padding[0], dilation[0]};
  const Shape from = depth.shape();
  const Tensor slices = slices_of_windows(depth, input);
  const Tensor images =
      conv2d(reshape(slices, {from[0] * from[1], from[2] * from[3], from[4], from[5]}), flat_kernels(weight), {},
             {of_images(stride), of_images(padding), of_images(dilation), groups});
  const Tensor y = permute(reshape(images, {to[0], to[2], to[1], to[3], to[4]}), {0, 2, 1, 3, 4});
  return bias.defined() ? y + reshape(autocast(kName, bias), {-1, 1, 1, 1}) : y;
}

Tensor conv_transpose3d(const Tensor& volumes, const Tensor& kernels, const Tensor& bias,
                        const ConvTranspose3dGeometry& geometry) {
  constexpr std::string_view kName = "conv_transpose3d";
  const OperationScope scope(kName, volumes, kernels, bias);
  const Tensor input = autocast(kName, volumes);
  const Tensor weight = autocast(kName, kernels);
  check_operands(kName, input, weight);
  const auto& [stride, padding, output_padding, dilation, groups] = geometry;
  const Shape to = transposed_convolution_shape(kName, axes_of(geometry), input.shape(), weight.shape());
  if (bias.defined()) check_bias_shape(kName, bias.shape(), to[1]);
  const Shape& from = input.shape();
  const Tensor slices = permute(input, {0, 2, 1, 3, 4});
  const Tensor images =
      conv_transpose2d(reshape(slices, {from[0] * from[2], from[1], from[3], from[4]}), flat_kernels(weight), {},
                       {of_images(stride), of_images(padding), of_images(output_padding), of_images(dilation), groups});
  const DepthWindows depth{to, from[2], weight.length(2), stride[0], padding[0], dilation[0]};
  const Tensor y = slices_to_volumes(depth, reshape(images, depth.shape()));
  return bias.defined() ? y + reshape(autocast(kName, bias), {-1, 1, 1, 1}) : y;
}

}  // namespace tutti
