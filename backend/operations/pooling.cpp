// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/operations/window_count.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {

// Every window holds an element of the input, since padding is at most half of it.
Shape pool2d_shape(std::string_view operation, const Pool2dGeometry& given, const Shape& input) {
  const Pool2dGeometry geometry = with_stride(given);
  if (input.size() != 4) raise<ShapeError>("[{}] input [n, c, h, w] is needed, not {}", operation, to_string(input));
  Shape output{input[0], input[1], 0, 0};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t kernel = geometry.kernel[i];
    const std::int64_t padding = geometry.padding[i];
    if (kernel < 1 || geometry.stride[i] < 1 || padding < 0 || padding > kernel / 2)
      raise<ShapeError>("[{}] kernel {} and stride {} must be at least 1, padding {} at most half of the kernel",
                        operation, kernel, geometry.stride[i], padding);
    if (input[i + 2] > 0) output[i + 2] = window_count(operation, {input[i + 2], kernel, geometry.stride[i], padding});
    if (output[i + 2] == 0)
      raise<ShapeError>("[{}] a window of {} does not fit the padded input {}", operation, kernel,
                        checks::given_images(operation, input));
  }
  const auto [rows, columns] = geometry.kernel;  // a mean is divided by their product
  (CheckedSize(rows) * columns).get(operation, "a window of {} x {}", rows, columns);
  return output;
}

std::pair<Array, Array> max_pool2d(const Pool2dGeometry& given, const Array& input) {
  const Pool2dGeometry geometry = with_stride(given);
  checks::require_defined("max_pool2d", input);
  checks::require_floating("max_pool2d", input);
  if (is_narrow(input)) {
    const auto [wide, places] = max_pool2d(geometry, widened(input));
    return {wide.cast(input.dtype()), places};
  }
  const Shape shape = pool2d_shape("max_pool2d", geometry, input.shape());
  Array maxima = Array::empty(shape, input.dtype(), input.device());
  Array index = Array::empty(shape, DType::i64, input.device());
  if (maxima.size() > 0) backend_for(input.device()).max_pool2d(geometry, input.contiguous(), maxima, index);
  return {maxima, index};
}

Array max_pool2d_gradient(const Pool2dGeometry& given, const Array& gradient, const Array& index, const Shape& input) {
  const Pool2dGeometry geometry = with_stride(given);
  constexpr std::string_view kName = "max_pool2d_gradient";
  checks::require_same_device(kName, gradient, index);
  checks::require_floating(kName, gradient);
  checks::require_dtype(kName, index, DType::i64);
  if (is_narrow(gradient)) return max_pool2d_gradient(geometry, widened(gradient), index, input).cast(gradient.dtype());
  const Shape shape = pool2d_shape(kName, geometry, input);
  checks::require_shape(kName, "the gradient", gradient, shape);
  checks::require_shape(kName, "index", index, shape);
  Array result = Array::empty(input, gradient.dtype(), gradient.device());
  if (result.size() > 0)
    backend_for(gradient.device()).max_pool2d_gradient(geometry, gradient.contiguous(), index.contiguous(), result);
  return result;
}

Array avg_pool2d(const AvgPool2dGeometry& given, const Array& input) {
  const AvgPool2dGeometry geometry = with_stride(given);
  checks::require_defined("avg_pool2d", input);
  checks::require_floating("avg_pool2d", input);
  if (is_narrow(input)) return avg_pool2d(geometry, widened(input)).cast(input.dtype());
  Array means =
      Array::empty(pool2d_shape("avg_pool2d", geometry.windows(), input.shape()), input.dtype(), input.device());
  if (means.size() > 0) backend_for(input.device()).avg_pool2d(geometry, input.contiguous(), means);
  return means;
}

Array avg_pool2d_gradient(const AvgPool2dGeometry& given, const Array& gradient, const Shape& input) {
  const AvgPool2dGeometry geometry = with_stride(given);
  constexpr std::string_view kName = "avg_pool2d_gradient";
  checks::require_defined(kName, gradient);
  checks::require_floating(kName, gradient);
  if (is_narrow(gradient)) return avg_pool2d_gradient(geometry, widened(gradient), input).cast(gradient.dtype());
  checks::require_shape(kName, "the gradient", gradient, pool2d_shape(kName, geometry.windows(), input));
  Array result = Array::empty(input, gradient.dtype(), gradient.device());
  if (result.size() > 0) backend_for(gradient.device()).avg_pool2d_gradient(geometry, gradient.contiguous(), result);
  return result;
}

}  // namespace tutti
