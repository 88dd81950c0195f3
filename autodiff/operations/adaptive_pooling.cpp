// SPDX-License-Identifier: Apache-2.0
// Axis by axis: the mean of equally long lines is that of their means, and their maximum that of maxima. Maxima from
// the last axis, so that the first of equals is found; means from the first, whose lines lie side by side. Windows that
// are equally long and apart are reduced as they lie; of others the elements are gathered.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

#include <numeric>
#include <string_view>

namespace tutti {

namespace {

enum class Pooling { mean, max };

/// Of an axis: element [i, j] is the j-th of window i. The last is repeated in windows that are shorter than the
/// longest.
struct Windows {
  Tensor places;    // [size, longest], i64
  Tensor repeated;  // [size, longest], bool
  Tensor lengths;   // [size, 1], i64
};

// Of arange, so that a step with them can be captured.
Windows windows_of(std::int64_t length, std::int64_t size, Device device) {
  // In lowest terms l / s, i l leaves every remainder r by s for some i: ceil((r + l) / s) is most for s - 1.
  const std::int64_t common = std::gcd(length, size);
  const std::int64_t longest = (length / common + 2 * (size / common - 1)) / (size / common);
  const Tensor i = expand_dims(arange(size, {.device = device}), 1);
  const Tensor begin = floor_divide(i * length, size);
  const Tensor end = floor_divide((i + 1) * length + (size - 1), size);
  const Tensor places = begin + arange(longest, {.device = device});
  return {minimum(places, end - 1), places >= end, end - begin};
}

/// With axes of length 1 behind, as many as x has behind that one.
Tensor beside(const Tensor& windows, const Tensor& x, std::size_t axis) {
  Shape shape = windows.shape();
  for (std::size_t i = axis + 1; i < x.rank(); ++i) shape.push_back(1);
  return reshape(windows, shape);
}

Tensor pool_axis(Pooling pooling, const Tensor& x, std::size_t axis, std::int64_t size) {
  const std::int64_t length = x.shape()[axis];
  if (size == length) return x;
  const auto within = static_cast<std::int64_t>(axis + 1);
  if (length % size == 0) {
    Shape shape = x.shape();
    shape[axis] = size;
    shape.insert(axis + 1, length / size);
    const Tensor elements = reshape(x, shape);
    return pooling == Pooling::mean ? mean(elements, within) : max(elements, within);
  }
  const Windows windows = windows_of(length, size, x.device());
  const Tensor elements = gather_lines(x, axis, windows.places);
  if (pooling == Pooling::max) return max(elements, within);
  const Tensor own = masked_fill(elements, beside(windows.repeated, x, axis), 0);
  return sum(own, within) / beside(squeeze(windows.lengths, {1}), x, axis);
}

Tensor adaptive_pool(std::string_view operation, Pooling pooling, const Tensor& input, const Dims& size) {
  const OperationScope scope(operation, input);
  check_image_rank(operation, size.size(), input.shape());
  if (!is_floating(input.dtype()))
    raise<DTypeError>("[{}] takes a floating type, not {}", operation, to_string(input.dtype()));
  Shape result{input.shape()[0], input.shape()[1]};
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::int64_t length = input.shape()[i + 2];
    if (size[i] < 1 || length < 1)
      raise<ShapeError>("[{}] there must be something to pool, and to pool to: size {} of input {}", operation,
                        to_string(size), to_string(input.shape()));
    ((CheckedSize(size[i]) + 1) * (CheckedSize(length) + 2)).get(operation, "size {} of {}", size[i], length);
    result.push_back(size[i]);
  }
  checked_element_count(operation, result);
  const Autocast as_given(DType::f32);
  Tensor x = widened(input);
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::size_t place = pooling == Pooling::mean ? i : size.size() - 1 - i;
    x = pool_axis(pooling, x, place + 2, size[place]);
  }
  return cast(x, input.dtype());
}

}  // namespace

Tensor adaptive_avg_pool1d(const Tensor& input, std::int64_t size) {
  return adaptive_pool("adaptive_avg_pool1d", Pooling::mean, input, {size});
}
Tensor adaptive_avg_pool2d(const Tensor& input, const std::array<std::int64_t, 2>& size) {
  return adaptive_pool("adaptive_avg_pool2d", Pooling::mean, input, Dims(size));
}
Tensor adaptive_avg_pool3d(const Tensor& input, const std::array<std::int64_t, 3>& size) {
  return adaptive_pool("adaptive_avg_pool3d", Pooling::mean, input, Dims(size));
}

Tensor adaptive_max_pool1d(const Tensor& input, std::int64_t size) {
  return adaptive_pool("adaptive_max_pool1d", Pooling::max, input, {size});
}
Tensor adaptive_max_pool2d(const Tensor& input, const std::array<std::int64_t, 2>& size) {
  return adaptive_pool("adaptive_max_pool2d", Pooling::max, input, Dims(size));
}
Tensor adaptive_max_pool3d(const Tensor& input, const std::array<std::int64_t, 3>& size) {
  return adaptive_pool("adaptive_max_pool3d", Pooling::max, input, Dims(size));
}

}  // namespace tutti
