// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors made of numbers. Those of random numbers are in random_operations.h.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/array.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti {

/// Properties of a new tensor: zeros({2, 3}, {.dtype = DType::bf16, .device = cuda(0), .requires_grad = true}).
struct TensorOptions {
  std::optional<DType> dtype{};  ///< none: each function's own, f32 or the literals': f32, i64 or bool
  Device device = cpu(0);
  bool requires_grad = false;  ///< makes it a leaf with a gradient; AutodiffError unless the dtype is floating
};

/// Numbers in braces, nested as the axes are: {1, 2}, {{1.0, 2.0}, {3.0, 4.0}}, or one number.
class NestedNumbers {
 public:
  template <Literal T> NestedNumbers(T number) : numbers_{Scalar(number)} {}  // NOLINT: conversions are the point
  /// ShapeError for rows of different shapes.
  NestedNumbers(std::initializer_list<NestedNumbers> rows);

  const Shape& shape() const noexcept { return shape_; }
  std::span<const Scalar> numbers() const noexcept { return numbers_; }  ///< row-major

 private:
  Shape shape_;
  std::vector<Scalar> numbers_;
};

/// tensor({{1, 2}, {3, 4}}): f32 if one number has a fraction or could have (1.0), i64 of integers, bool of bools,
/// unless the dtype is given. DTypeError for a number out of an integer type's range; a fraction is dropped there.
Tensor tensor(const NestedNumbers&, const TensorOptions& = {});
/// A copy of `values`, row-major, in their type unless another is given: tensor(pixels, {28, 28}). ShapeError unless
/// there are as many as the shape holds.
template <class T> Tensor tensor(std::span<T> values, const Shape& shape, const TensorOptions& options = {}) {
  using Value = std::remove_const_t<T>;
  const Array copy = Array::from(std::span<const Value>(values), shape, options.device);
  return Tensor(copy.cast(options.dtype.value_or(dtype_of<Value>)), options.requires_grad);
}
template <class T> Tensor tensor(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {}) {
  return Tensor(Array::from(values, shape, options.device).cast(options.dtype.value_or(dtype_of<T>)),
                options.requires_grad);
}
template <class T> Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, options);  // one axis
}

Tensor zeros(const Shape&, const TensorOptions& = {});                      ///< f32
Tensor ones(const Shape&, const TensorOptions& = {});                       ///< f32
Tensor full(const Shape&, const Scalar& value, const TensorOptions& = {});  ///< the literal's type
/// Tensors of the given one's shape, dtype and device, without a gradient.
Tensor zeros_like(const Tensor&);
Tensor ones_like(const Tensor&);
Tensor full_like(const Tensor&, const Scalar& value);

/// begin, begin + step, ... before end; none if end lies on the other side, as NumPy's. i64, or f32 if one of the three
/// has a fraction or could have: then begin + i * step in f64, rounded once. Error for step 0 and what is not finite.
Tensor arange(const Scalar& begin, const Scalar& end, const Scalar& step = 1, const TensorOptions& = {});
Tensor arange(const Scalar& begin, const Scalar& end, const TensorOptions&);
Tensor arange(const Scalar& end, const TensorOptions& = {});  ///< begins at 0
/// `count` numbers at equal distances, both ends among them: f32, computed in f64. One number is begin. ShapeError for
/// a negative count.
Tensor linspace(double begin, double end, std::int64_t count, const TensorOptions& = {});
/// 1 where row and column are equal, else 0: [rows, columns], f32; as many columns as rows unless given.
Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions&);
template <std::integral Columns> Tensor eye(std::int64_t rows, Columns columns) {  // {} are options
  return eye(rows, static_cast<std::int64_t>(columns), TensorOptions());
}
inline Tensor eye(std::int64_t rows, const TensorOptions& options = {}) { return eye(rows, rows, options); }

}  // namespace tutti
