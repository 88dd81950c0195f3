// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/operations/window_count.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

/// What a kernel may keep for each element of an image with its padding, in bytes; far fewer are.
constexpr std::int64_t kBytesBeside = 256;

void check_geometry(std::string_view name, const Conv2dGeometry& geometry) {
  for (std::size_t i = 0; i < 2; ++i)
    if (geometry.stride[i] < 1 || geometry.padding[i] < 0 || geometry.dilation[i] < 1)
      raise<ShapeError>("[{}] stride {} and dilation {} must be at least 1, padding {} at least 0", name,
                        geometry.stride[i], geometry.dilation[i], geometry.padding[i]);
  if (geometry.groups < 1) raise<ShapeError>("[{}] groups must be at least 1, not {}", name, geometry.groups);
}

void check_channels(std::string_view name, std::int64_t groups, const Shape& input, const Shape& weight) {
  if (input.size() == 3 && weight.size() == 4)
    raise<ShapeError>("[{}] input {} has no batch axis: expand_dims(x, 0) gives it one", name,
                      checks::given_images(name, input));
  if (groups == 1 && input.size() == 4 && weight.size() == 4 && input[1] != weight[1])
    raise<ShapeError>("[{}] input {} has {} channels, weight {} takes {}", name, checks::given_images(name, input),
                      input[1], checks::given_images(name, weight), weight[1]);
  if (input.size() != 4 || weight.size() != 4)
    raise<ShapeError>("[{}] input [n, c, h, w] and weight [k, c, r, s] are needed, not {} and {}", name,
                      checks::given_images(name, input), checks::given_images(name, weight));
  if (input[1] % groups != 0 || weight[0] % groups != 0)
    raise<ShapeError>("[{}] {} groups must divide both {} channels in and {} out, of input {} and weight {}", name,
                      groups, input[1], weight[0], checks::given_images(name, input),
                      checks::given_images(name, weight));
  if (input[1] / groups != weight[1])
    raise<ShapeError>("[{}] input {} in {} groups has {} channels in each, weight {} is for {}", name,
                      checks::given_images(name, input), groups, input[1] / groups, checks::given_images(name, weight),
                      weight[1]);
}

void check_operands(std::string_view name, const Array& lhs, const Array& rhs) {
  checks::require_alike(name, lhs, rhs);
  checks::require_floating(name, lhs);
}

/// True if the device's kernels want these operands widened.
bool is_widened(const Array& operand) {
  return is_narrow(operand) && !backend_for(operand.device()).convolves(operand.dtype());
}

}  // namespace

Shape conv2d_shape(std::string_view operation, const Conv2dGeometry& geometry, const Shape& input,
                   const Shape& weight) {
  check_geometry(operation, geometry);
  check_channels(operation, geometry.groups, input, weight);
  Shape output{input[0], weight[0], 0, 0};
  CheckedSize padded = CheckedSize(input[1]) * kBytesBeside;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [stride, padding, dilation, groups] = geometry;
    if (weight[i + 2] > 0)
      output[i + 2] = window_count(operation, {input[i + 2], weight[i + 2], stride[i], padding[i], dilation[i]});
    if (output[i + 2] == 0)
      raise<ShapeError>("[{}] the kernel of {} does not fit the padded input {}", operation,
                        checks::given_images(operation, weight), checks::given_images(operation, input));
    padded = padded * (input[i + 2] + 2 * padding[i]);
  }
  padded.get(operation, "{} channels of {} x {} elements with padding {} x {}", input[1], input[2], input[3],
             geometry.padding[0], geometry.padding[1]);
  return output;
}

Array conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight) {
  check_operands("conv2d", input, weight);
  if (is_widened(input)) return conv2d(geometry, widened(input), widened(weight)).cast(input.dtype());
  Array result =
      Array::empty(conv2d_shape("conv2d", geometry, input.shape(), weight.shape()), input.dtype(), input.device());
  if (result.size() == 0) return result;
  if (input.size() > 0)
    backend_for(input.device()).conv2d(geometry, input.contiguous(), weight.contiguous(), result);
  else
    result.fill(0);  // no channels
  return result;
}

Array conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                            const Shape& input) {
  constexpr std::string_view kName = "conv2d_input_gradient";
  check_operands(kName, gradient, weight);
  if (is_widened(gradient))
    return conv2d_input_gradient(geometry, widened(gradient), widened(weight), input).cast(gradient.dtype());
  checks::require_shape(kName, "the gradient", gradient, conv2d_shape(kName, geometry, input, weight.shape()));
  Array result = Array::empty(input, gradient.dtype(), gradient.device());
  if (result.size() == 0) return result;
  if (gradient.size() > 0)
    backend_for(gradient.device()).conv2d_input_gradient(geometry, gradient.contiguous(), weight.contiguous(), result);
  else
    result.fill(0);
  return result;
}

Array conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                             const Shape& weight, const Array& out) {
  constexpr std::string_view kName = "conv2d_weight_gradient";
  check_operands(kName, gradient, input);
  if (is_widened(gradient))
    return narrowed(kName, conv2d_weight_gradient(geometry, widened(gradient), widened(input), weight),
                    gradient.dtype(), out);
  checks::require_shape(kName, "the gradient", gradient, conv2d_shape(kName, geometry, input.shape(), weight));
  Array result = checks::output(kName, out, weight, gradient.dtype(), gradient.device());
  if (result.size() == 0) return result;
  if (gradient.size() > 0)
    backend_for(gradient.device()).conv2d_weight_gradient(geometry, gradient.contiguous(), input.contiguous(), result);
  else
    result.fill(0);
  return result;
}

}  // namespace tutti
