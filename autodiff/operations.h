// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every differentiable operation. Operands are promoted to a common dtype and broadcast (NumPy's rules); gradients are
// summed back to each operand's shape. Operands on different devices throw DeviceError. Errors name the operation. All
// are differentiable any number of times unless they say otherwise; negative axes count from the back.

#include <tutti/autodiff/along_axis.h>
#include <tutti/autodiff/attention.h>
#include <tutti/autodiff/creation.h>
#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/autodiff/fourier.h>
#include <tutti/autodiff/image_operations.h>
#include <tutti/autodiff/indexing.h>
#include <tutti/autodiff/normalization.h>
#include <tutti/autodiff/random_operations.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/kernel_arguments.h>

#include <concepts>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

// --- types, selection and shape
/// Itself if of that dtype already. Between floating types differentiable: the gradient comes back in x's dtype. What
/// is cast to integers or bool has none.
Tensor cast(const Tensor&, DType);
/// a where the mask is true, b elsewhere; all three broadcast, a and b are promoted. The mask is bool, else DTypeError.
/// Each side's gradient is 0 where the other was taken.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
template <Literal T> Tensor where(const Tensor& mask, const Tensor& a, T b) {
  return where(mask, a, Tensor(Scalar(b)));
}
template <Literal T> Tensor where(const Tensor& mask, T a, const Tensor& b) {
  return where(mask, Tensor(Scalar(a)), b);
}
template <Literal T, Literal U> Tensor where(const Tensor& mask, T a, U b) {
  return where(mask, Tensor(Scalar(a)), Tensor(Scalar(b)));
}
/// The same elements in order, a view if strides allow it, else a copy; one length may be -1. ShapeError unless the
/// elements fit.
Tensor reshape(const Tensor&, const Shape&);
/// Axis i of the result is the input's axis axes[i]; a view. ShapeError unless each axis is named once.
Tensor permute(const Tensor&, const Axes&);
Tensor transpose(const Tensor&, std::int64_t axis0 = -2, std::int64_t axis1 = -1);  ///< swaps two axes; a view
Tensor broadcast_to(const Tensor&, const Shape&);  ///< a view that repeats axes of length 1; the gradient sums them
/// Sums what broadcasting repeated; the inverse of broadcast_to. With a destination: written there, not recorded.
Tensor sum_to(const Tensor&, const Shape&, const Array& destination = {});
/// This axis and all behind it as one: all of them unless it is given, from 1 [n, c, h, w] -> [n, c*h*w]. A view if
/// strides allow it. A number gives [1].
Tensor flatten(const Tensor&, std::int64_t first_axis = 0);
/// That axis at place `to` of the result, the others in their order; a view.
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
/// x with `value` around it: one pair of widths for each axis, from the first. ShapeError for another number of pairs
/// and for negative widths, DTypeError for a value that x's dtype does not have. The gradient is dy without the margin.
Tensor pad(const Tensor&, std::span<const Padding> widths, const Scalar& value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> widths, const Scalar& value = 0) {
  return pad(x, std::span(widths.begin(), widths.size()), value);
}
/// Joined along an axis, in the dtype all are promoted to; stack makes that axis, and all have one shape. ShapeError
/// for no tensors, and for lengths that differ, of concatenate beside that axis. Each part's gradient is a slice of dy.
Tensor concatenate(std::span<const Tensor>, std::int64_t axis = 0);
Tensor stack(std::span<const Tensor>, std::int64_t axis = 0);
inline Tensor concatenate(std::initializer_list<Tensor> parts, std::int64_t axis = 0) {
  return concatenate(std::span(parts.begin(), parts.size()), axis);
}
inline Tensor stack(std::initializer_list<Tensor> parts, std::int64_t axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}
/// Consecutive parts along an axis, views: of these lengths, or of one length, but for the last. There is one part at
/// least, an empty one of an empty axis. ShapeError for lengths that do not add up, for negative ones, and for one
/// length below 1.
std::vector<Tensor> split(const Tensor&, std::span<const std::int64_t> lengths, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor&, std::int64_t length, std::int64_t axis = 0);
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> lengths, std::int64_t axis = 0) {
  return split(x, std::span(lengths.begin(), lengths.size()), axis);
}
/// Those positions of an axis, integers of any type, else DTypeError: the positions' axes stand in its place. Negative
/// ones count from the back. One outside throws ShapeError when the kernel runs. Gradients of a position that stands
/// twice add up.
Tensor take(const Tensor&, const Tensor& positions, std::int64_t axis);
/// The elements (i, i + offset) of two axes, which become one, the last; a view, empty where there are none. ShapeError
/// if both are the same axis. The gradient is 0 beside the diagonal.
Tensor diagonal(const Tensor&, std::int64_t offset = 0, std::int64_t axis0 = 0, std::int64_t axis1 = 1);
Tensor tril(const Tensor&, std::int64_t diagonal = 0);  ///< zeros above that diagonal of the last two axes
Tensor triu(const Tensor&, std::int64_t diagonal = 0);  ///< zeros below it
/// where(mask, value, x), in x's dtype; DTypeError for a literal that it does not have.
Tensor masked_fill(const Tensor&, const Tensor& mask, const Tensor& value);
template <Literal T> Tensor masked_fill(const Tensor& x, const Tensor& mask, T value) {
  return masked_fill(x, mask, Tensor(Scalar(value)));
}
/// Integers [...] -> [..., classes] with 1 at each one's place; one outside throws ShapeError when the kernel runs.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType = DType::f32);
Tensor to(const Tensor&, Device);  ///< a copy there, itself if there already; the gradient comes home

// --- reductions; no axes: all
/// Integers and bool give i64; bf16 and f16 are added in f32 and rounded once. Of nothing 0.
Tensor sum(const Tensor&, const Axes& = {}, bool keep_dims = false);
Tensor mean(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< integers give f32; of nothing NaN
/// The gradient goes to the first maximum (minimum). NaN wins. Of nothing ShapeError.
Tensor max(const Tensor&, const Axes& = {}, bool keep_dims = false);
Tensor min(const Tensor&, const Axes& = {}, bool keep_dims = false);
/// i64, the first of equals and of NaN; no gradient. Without an axis the place among all elements, row-major, [].
/// Of nothing ShapeError, of bool DTypeError, as PyTorch's.
Tensor argmax(const Tensor&);
Tensor argmin(const Tensor&);
Tensor argmax(const Tensor&, std::int64_t axis, bool keep_dims = false);
Tensor argmin(const Tensor&, std::int64_t axis, bool keep_dims = false);
template <std::same_as<bool> B> Tensor argmax(const Tensor&, B keep_dims) = delete;  // of no axis
template <std::same_as<bool> B> Tensor argmin(const Tensor&, B keep_dims) = delete;
/// Mean squared distance from the mean, over n - correction elements: 1 is the unbiased estimate and PyTorch's default;
/// NumPy's is 0. Integers give f32.
Tensor var(const Tensor&, const Axes& = {}, double correction = 1, bool keep_dims = false);
/// sqrt(var), with the gradient 0 where that is 0.
Tensor stddev(const Tensor&, const Axes& = {}, double correction = 1, bool keep_dims = false);
template <std::same_as<bool> B> Tensor var(const Tensor&, const Axes&, B keep_dims) = delete;  // not the correction
template <std::same_as<bool> B> Tensor stddev(const Tensor&, const Axes&, B keep_dims) = delete;
/// Euclidean, sqrt(sum(x^2)); integers give f32. The gradient is 0 where it is 0.
Tensor norm(const Tensor&, const Axes& = {}, bool keep_dims = false);
/// log(sum(exp(x))) without overflow; of nothing -inf.
Tensor logsumexp(const Tensor&, const Axes& = {}, bool keep_dims = false);
/// Of nothing 1; integers and bool give i64. Gradients of every order are right where elements are 0.
Tensor prod(const Tensor&, const Axes& = {}, bool keep_dims = false);
// Of any dtype; no gradient.
Tensor any_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: one is not 0, or NaN
Tensor all_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: none is 0
Tensor count_nonzero(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< i64; NaN counts

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
/// activation(x W^T + b) over the last axis: x [..., in], weight [out, in], bias [out] or undefined -> [..., out], in
/// one pass; gelu in a second where a graph is recorded, and of bf16 and f16. Operands are promoted, integers give f32.
/// ShapeError for what does not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              LinearActivation = LinearActivation::none);
Tensor softmax(const Tensor&, std::int64_t axis = -1);      ///< exp(x) / sum(exp(x)) along an axis; integers give f32
Tensor log_softmax(const Tensor&, std::int64_t axis = -1);  ///< its logarithm, finite where softmax rounds to 0
/// y[.., j, ..] = input[.., index[.., j, ..], ..] along an axis (PyTorch's gather, NumPy's take_along_axis): the shape
/// of the i64 index, whose other axes are no longer than the input's. The gradient is added to where each came from.
/// ShapeError for an index that does not fit; for one out of range when the kernel runs.
Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index);
/// Rows of a table [rows, columns...] of any dtype at integer indices of any shape -> [indices..., columns...].
/// Gradients of a row that is read more than once add up. The one operation that a leaf with sparse gradients may
/// enter. DTypeError for other indices; one out of range throws ShapeError when the kernel runs.
Tensor embedding(const Tensor& table, const Tensor& indices);
/// Zeros of `shape` with each update added where `index`, i64 of the updates' shape, points along the axis: gather's
/// gradient, and gather is its. Deterministic. PyTorch's x.scatter_add(d, i, u) is x + scatter_add(x.shape(), u, d, i).
/// Errors are gather's, and DTypeError for bools.
Tensor scatter_add(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& index);

}  // namespace tutti
