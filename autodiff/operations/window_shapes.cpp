// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/window_shapes.h>

#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations/window_count.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <array>

namespace tutti {

namespace {

constexpr std::array<std::string_view, 4> kInputs{"[n, c]", "[n, c, l]", "[n, c, h, w]", "[n, c, d, h, w]"};

void check_axes(std::string_view operation, const ConvolutionAxes& axes) {
  for (std::size_t i = 0; i < axes.stride.size(); ++i)
    if (axes.stride[i] < 1 || axes.padding[i] < 0 || axes.dilation[i] < 1)
      raise<ShapeError>("[{}] stride {} and dilation {} must be at least 1, padding {} at least 0", operation,
                        axes.stride[i], axes.dilation[i], axes.padding[i]);
  if (axes.groups < 1) raise<ShapeError>("[{}] groups must be at least 1, not {}", operation, axes.groups);
}

std::int64_t channels_of_groups(std::string_view operation, const Shape& weight, std::int64_t groups) {
  return (CheckedSize(weight[1]) * groups).get(operation, "weight {} in {} groups", weight, groups);
}

/// `taken`: the axis of the weight that stands for the channels of the input, of one group or of all.
void check_operands(std::string_view operation, const ConvolutionAxes& axes, const Shape& input, const Shape& weight,
                    std::size_t taken) {
  check_axes(operation, axes);
  check_image_rank(operation, axes.stride.size(), input);
  if (weight.size() != input.size())
    raise<ShapeError>("[{}] weight {} must have as many axes as input {}", operation, to_string(weight),
                      to_string(input));
  if (input[1] % axes.groups != 0 || weight[0] % axes.groups != 0)
    raise<ShapeError>("[{}] {} groups must divide the channels of input {} and the first axis of weight {}", operation,
                      axes.groups, to_string(input), to_string(weight));
  const std::int64_t channels = taken == 0 ? weight[0] : channels_of_groups(operation, weight, axes.groups);
  if (input[1] != channels)
    raise<ShapeError>("[{}] input {} has {} channels, weight {} in {} groups takes {}", operation, to_string(input),
                      input[1], to_string(weight), axes.groups, channels);
  for (std::size_t i = 2; i < weight.size(); ++i)
    if (weight[i] < 1) raise<ShapeError>("[{}] weight {} has an empty kernel", operation, to_string(weight));
}

}  // namespace

void check_image_rank(std::string_view operation, std::size_t axes, const Shape& input) {
  if (input.size() != axes + 2)
    raise<ShapeError>("[{}] input {} is needed, not {}", operation, kInputs.at(axes), to_string(input));
}

Shape convolution_shape(std::string_view operation, const ConvolutionAxes& axes, const Shape& input,
                        const Shape& weight) {
  check_operands(operation, axes, input, weight, 1);
  Shape output{input[0], weight[0]};
  for (std::size_t i = 0; i < axes.stride.size(); ++i) {
    output.push_back(
        window_count(operation, {input[i + 2], weight[i + 2], axes.stride[i], axes.padding[i], axes.dilation[i]}));
    if (output.back() == 0)
      raise<ShapeError>("[{}] the kernel of {} does not fit the padded input {}", operation, to_string(weight),
                        to_string(input));
  }
  return output;
}

Shape transposed_convolution_shape(std::string_view operation, const ConvolutionAxes& axes, const Shape& input,
                                   const Shape& weight) {
  check_operands(operation, axes, input, weight, 0);
  Shape output{input[0], channels_of_groups(operation, weight, axes.groups)};
  for (std::size_t i = 0; i < axes.stride.size(); ++i) {
    const std::int64_t more = axes.output_padding[i];
    if (more < 0 || more >= std::max(axes.stride[i], axes.dilation[i]))
      raise<ShapeError>("[{}] output_padding {} must be at least 0, and less than stride {} or dilation {}", operation,
                        more, axes.stride[i], axes.dilation[i]);
    const CheckedSize last = (CheckedSize(input[i + 2]) - 1) * axes.stride[i];
    const CheckedSize extent = CheckedSize(axes.dilation[i]) * (weight[i + 2] - 1) + 1;
    const CheckedSize length = last + extent + more - 2 * CheckedSize(axes.padding[i]);
    output.push_back(length.get(operation, "input {} and weight {} with stride {}, padding {} and dilation {}", input,
                                weight, axes.stride[i], axes.padding[i], axes.dilation[i]));
    if (input[i + 2] < 1 || output.back() < 1)
      raise<ShapeError>("[{}] input {} and weight {} leave nothing of axis {} behind the padding", operation,
                        to_string(input), to_string(weight), i + 2);
  }
  return output;
}

void check_bias_shape(std::string_view operation, const Shape& bias, std::int64_t channels) {
  if (bias != Shape{channels})
    raise<ShapeError>("[{}] bias {} does not fit {} channels out", operation, to_string(bias), channels);
}

Shape pooling_shape(std::string_view operation, const Dims& kernel, const Dims& stride, const Dims& padding,
                    const Shape& input) {
  check_image_rank(operation, kernel.size(), input);
  Shape output{input[0], input[1]};
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < 1 || stride[i] < 1 || padding[i] < 0 || padding[i] > kernel[i] / 2)
      raise<ShapeError>("[{}] kernel {} and stride {} must be at least 1, padding {} at most half of the kernel",
                        operation, kernel[i], stride[i], padding[i]);
    output.push_back(input[i + 2] > 0 ? window_count(operation, {input[i + 2], kernel[i], stride[i], padding[i]}) : 0);
    if (output.back() == 0)
      raise<ShapeError>("[{}] a window of {} does not fit the padded input {}", operation, kernel[i], to_string(input));
  }
  return output;
}

}  // namespace tutti
