// SPDX-License-Identifier: Apache-2.0
// Sequences [n, c, l] as images of one row.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <string_view>

namespace tutti {

namespace {

Tensor as_images(std::string_view operation, std::string_view what, const Tensor& sequences) {
  if (sequences.rank() != 3)
    raise<ShapeError>("[{}] {} is needed, not {}", operation, what, to_string(sequences.shape()));
  return expand_dims(sequences, 2);
}

Tensor as_sequences(const Tensor& images) { return squeeze(images, {2}); }

/// The input as images, after the checks of pooling.
Tensor checked(std::string_view operation, const Tensor& input, const Pool2dGeometry& geometry) {
  const Tensor images = as_images(operation, "input [n, c, l]", input);
  pool2d_shape(operation, geometry, images.shape());
  return images;
}

}  // namespace

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv1dGeometry& geometry) {
  const OperationScope scope("conv1d", input, weight, bias);
  const Conv2dGeometry rows{{1, geometry.stride}, {0, geometry.padding}, {1, geometry.dilation}, geometry.groups};
  const Tensor images = as_images("conv1d", "input [n, c, l]", input);
  const Tensor kernels = as_images("conv1d", "weight [k, c / groups, s]", weight);
  conv2d_shape("conv1d", rows, images.shape(), kernels.shape());
  return as_sequences(conv2d(images, kernels, bias, rows));
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dGeometry& given) {
  constexpr std::string_view kName = "conv_transpose1d";
  const OperationScope scope(kName, input, weight, bias);
  const Shape output = transposed_convolution_shape(kName, axes_of(given), input.shape(), weight.shape());
  if (bias.defined()) check_bias_shape(kName, bias.shape(), output[1]);
  const ConvTranspose2dGeometry rows{
      {1, given.stride}, {0, given.padding}, {0, given.output_padding}, {1, given.dilation}, given.groups};
  return as_sequences(conv_transpose2d(expand_dims(input, 2), expand_dims(weight, 2), bias, rows));
}

Tensor max_pool1d(const Tensor& input, const Pool1dGeometry& given) {
  const OperationScope scope("max_pool1d", input);
  const Pool1dGeometry geometry = with_stride(given);
  const Pool2dGeometry rows{{1, geometry.kernel}, {1, geometry.stride}, {0, geometry.padding}};
  return as_sequences(max_pool2d(checked("max_pool1d", input, rows), rows));
}

Tensor avg_pool1d(const Tensor& input, const AvgPool1dGeometry& given) {
  const OperationScope scope("avg_pool1d", input);
  const AvgPool1dGeometry geometry = with_stride(given);
  const AvgPool2dGeometry rows{
      {1, geometry.kernel}, {1, geometry.stride}, {0, geometry.padding}, geometry.count_include_pad};
  return as_sequences(avg_pool2d(checked("avg_pool1d", input, rows.windows()), rows));
}

}  // namespace tutti
