// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every differentiable operation. Operands are promoted to a common dtype and broadcast (NumPy's rules); gradients are
// summed back to each operand's shape. Operands on different devices throw DeviceError. Errors name the operation.

#include <tutti/autodiff/along_axis.h>
#include <tutti/autodiff/attention.h>
#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/autodiff/image_operations.h>
#include <tutti/autodiff/indexing.h>
#include <tutti/autodiff/normalization.h>
#include <tutti/autodiff/random_operations.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/kernel_arguments.h>

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

// --- types, selection and shape
Tensor cast(const Tensor&, DType);  ///< differentiable between floating types
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
template <Literal T> Tensor where(const Tensor& mask, const Tensor& a, T b) {
  return where(mask, a, Tensor(Scalar(b)));
}
template <Literal T> Tensor where(const Tensor& mask, T a, const Tensor& b) {
  return where(mask, Tensor(Scalar(a)), b);
}
Tensor reshape(const Tensor&, const Shape&);  ///< one length may be -1
Tensor permute(const Tensor&, const Axes&);
Tensor transpose(const Tensor&, std::int64_t axis0 = -2, std::int64_t axis1 = -1);
Tensor broadcast_to(const Tensor&, const Shape&);
/// Sums what broadcasting repeated; the inverse of broadcast_to. With a destination: written there, not recorded.
Tensor sum_to(const Tensor&, const Shape&, const Array& destination = {});
Tensor flatten(const Tensor&, std::int64_t first_axis = 1);  ///< [n, c, h, w] -> [n, c*h*w]
Tensor moveaxis(const Tensor&, std::int64_t from, std::int64_t to);
Tensor squeeze(const Tensor&, const Axes& = {});       ///< drops these axes of length 1; none given: all such
Tensor expand_dims(const Tensor&, std::int64_t axis);  ///< a new axis of length 1, there in the result
Tensor tile(const Tensor&, const Shape& counts);       ///< repeats the whole along each axis, as NumPy's
/// Positions begin, begin + step, ... before end of one axis. Unlike in x[{range(begin, end)}], what lies outside
/// throws ShapeError.
Tensor slice(const Tensor&, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
struct Padding {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
Tensor pad(const Tensor&, std::span<const Padding> widths, const Scalar& value = 0);  ///< one pair for each axis
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> widths, const Scalar& value = 0) {
  return pad(x, std::span(widths.begin(), widths.size()), value);
}
/// Joined along an axis, in the dtype all are promoted to; stack makes that axis, and all have one shape.
Tensor concatenate(std::span<const Tensor>, std::int64_t axis = 0);
Tensor stack(std::span<const Tensor>, std::int64_t axis = 0);
inline Tensor concatenate(std::initializer_list<Tensor> parts, std::int64_t axis = 0) {
  return concatenate(std::span(parts.begin(), parts.size()), axis);
}
inline Tensor stack(std::initializer_list<Tensor> parts, std::int64_t axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}
/// Consecutive parts along an axis: of these lengths, which must add up, or of one length, but for the last.
std::vector<Tensor> split(const Tensor&, std::span<const std::int64_t> lengths, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor&, std::int64_t length, std::int64_t axis = 0);
Tensor take(const Tensor&, const Tensor& positions, std::int64_t axis);  ///< the positions' axes in the axis' place
Tensor diagonal(const Tensor&, std::int64_t offset = 0, std::int64_t axis0 = 0, std::int64_t axis1 = 1);  ///< last axis
Tensor tril(const Tensor&, std::int64_t diagonal = 0);  ///< zeros above that diagonal of the last two axes
Tensor triu(const Tensor&, std::int64_t diagonal = 0);  ///< zeros below it
Tensor masked_fill(const Tensor&, const Tensor& mask, const Tensor& value);  ///< where(mask, value, x), in x's dtype
template <Literal T> Tensor masked_fill(const Tensor& x, const Tensor& mask, T value) {
  return masked_fill(x, mask, Tensor(Scalar(value)));
}
/// Integers [...] -> [..., classes] with 1 at each one's place; one outside throws ShapeError when the kernel runs.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType = DType::f32);
Tensor to(const Tensor&, Device);  ///< differentiable copy

// --- reductions; no axes: all
Tensor sum(const Tensor&, const Axes& = {}, bool keep_dims = false);
Tensor mean(const Tensor&, const Axes& = {}, bool keep_dims = false);
Tensor max(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< the gradient goes to the first maximum
Tensor min(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< the gradient goes to the first minimum
/// i64, the first of equals and of NaN; no gradient.
Tensor argmax(const Tensor&, std::int64_t axis, bool keep_dims = false);
Tensor argmin(const Tensor&, std::int64_t axis, bool keep_dims = false);
/// Mean squared distance from the mean, over n - correction elements: 1 is the unbiased estimate.
Tensor var(const Tensor&, const Axes& = {}, double correction = 1, bool keep_dims = false);
Tensor stddev(const Tensor&, const Axes& = {}, double correction = 1, bool keep_dims = false);
Tensor norm(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< Euclidean; gradient 0 at 0
Tensor logsumexp(const Tensor&, const Axes& = {}, bool keep_dims = false);
/// Of nothing 1; integers wrap. Gradients of every order are right where elements are 0.
Tensor prod(const Tensor&, const Axes& = {}, bool keep_dims = false);
Tensor any_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: one is not 0, or NaN
Tensor all_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: none is 0
Tensor count_nonzero(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< i64

// --- structured
/// [..., m, k] x [..., k, n], leading axes broadcast. A vector on the left is a row, one on the right a column, and
/// that axis is dropped from the result. Integers give f32.
Tensor matmul(const Tensor& lhs, const Tensor& rhs);
/// Einstein's sums: einsum("bij,bjk->bik", {a, b}). Letters name axes; those that are not in the result are summed, one
/// that stands twice in a term selects the diagonal, "..." are all other axes, broadcast. Without "->" the result has
/// the letters that stand once, sorted. Operands are multiplied from left to right; integers give f32. ShapeError for
/// what does not fit.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}
/// activation(x W^T + b) over the last axis, in one pass; weight [out, in].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              LinearActivation = LinearActivation::none);
Tensor softmax(const Tensor&, std::int64_t axis = -1);
Tensor log_softmax(const Tensor&, std::int64_t axis = -1);
Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index);
/// Rows of a table [rows, columns...] at i64 indices of any shape -> [indices..., columns...]. The one operation that a
/// leaf with sparse gradients may enter. An index out of range throws ShapeError when the kernel runs.
Tensor embedding(const Tensor& table, const Tensor& indices);
Tensor scatter_add(const Shape&, const Tensor& updates, std::int64_t axis, const Tensor& index);

}  // namespace tutti
