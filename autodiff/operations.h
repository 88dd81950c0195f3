// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every differentiable operation. Operands are promoted to a common dtype and broadcast (NumPy's rules); gradients are
// summed back to each operand's shape. Operands on different devices throw DeviceError. Errors name the operation. All
// are differentiable any number of times unless they say otherwise; negative axes count from the back. A scalar has an
// axis, 0 or -1, to what reduces, normalises, orders, flips or picks one element for each along an axis, as in PyTorch;
// what cuts or joins axes refuses it.
//
// Indices that are positions along an axis (x[index], take, gather, scatter, scatter_add, slice_assign) are integers of
// any type, and negative ones count from the back. Those that number rows or classes (embedding, one_hot, bincount) are
// of any integer type too, but a negative one is out of range.

#include <tutti/autodiff/operations/adaptive_pooling.h>
#include <tutti/autodiff/operations/along_axis.h>
#include <tutti/autodiff/operations/attention.h>
#include <tutti/autodiff/operations/creation.h>
#include <tutti/autodiff/operations/data_dependent_shapes.h>
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/autodiff/operations/fourier.h>
#include <tutti/autodiff/operations/image_operations.h>
#include <tutti/autodiff/operations/image_sampling.h>
#include <tutti/autodiff/operations/linear_algebra.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/autodiff/operations/random_operations.h>
#include <tutti/autodiff/operations/volume_operations.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/autodiff/tensor/indexing.h>
#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/error.h>

#include <concepts>
#include <cstdint>
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
/// Moves axis `from` to place `to` of the result, the others in their order; a view.
Tensor moveaxis(const Tensor&, std::int64_t from, std::int64_t to);
Tensor squeeze(const Tensor&, const Axes& = {});       ///< drops these axes of length 1; none given: all such
Tensor expand_dims(const Tensor&, std::int64_t axis);  ///< a new axis of length 1, there in the result
Tensor tile(const Tensor&, const Shape& counts);       ///< repeats the whole along each axis, as NumPy's
/// Each element `count` times in a row along the axis (`repeat_interleave` with a number for each is in counted.h).
Tensor repeat_interleave(const Tensor&, std::int64_t count, std::int64_t axis);
/// A copy, these axes from the back; none given: all. ShapeError for an axis that is named twice.
Tensor flip(const Tensor&, const Axes& = {});
/// Elements `shift` positions further along the axis, those that leave it at its end come in at its begin. Without an
/// axis as one row, row-major.
Tensor roll(const Tensor&, std::int64_t shift, std::int64_t axis);
Tensor roll(const Tensor&, std::int64_t shift);
/// Windows of `size` elements every `step` along an axis, which numbers them then; their elements are a new last axis.
/// A view, in which windows may share elements; their gradients add up. What the last window leaves is not seen.
/// ShapeError for windows longer than the axis, and for a size or step below 1.
Tensor unfold(const Tensor&, std::int64_t axis, std::int64_t size, std::int64_t step);
/// Each coordinate's numbers [n_i] along an axis of its own of a common grid: views of [n_0, n_1, ...], or of
/// [n_1, n_0, ...], which is NumPy's default. A number counts as [1]. ShapeError for more than one axis.
enum class MeshOrder : std::uint8_t { ij, xy };
std::vector<Tensor> meshgrid(std::span<const Tensor> coordinates, MeshOrder = MeshOrder::ij);
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> coordinates, MeshOrder order = MeshOrder::ij) {
  return meshgrid(std::span(coordinates.begin(), coordinates.size()), order);
}
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
/// Surroundings of x in place of a value: x mirrored at its first and last elements, these repeated, or x itself again.
enum class PaddingMode : std::uint8_t { reflect, replicate, circular };
/// Widths may be more than x is long: it is mirrored or repeated as often as it takes, as NumPy's. ShapeError as above,
/// and of an axis without elements. Gradients of what stands several times add up.
Tensor pad(const Tensor&, std::span<const Padding> widths, PaddingMode);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> widths, PaddingMode mode) {
  return pad(x, std::span(widths.begin(), widths.size()), mode);
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
/// Those positions of an axis: the positions' axes stand in its place. DTypeError unless they are integers; one outside
/// throws ShapeError when the kernel runs. Gradients of a position that stands twice add up.
Tensor take(const Tensor&, const Tensor& positions, std::int64_t axis);
/// The elements (i, i + offset) of two axes, which become one, the last; a view, empty where there are none. ShapeError
/// if both are the same axis. The gradient is 0 beside the diagonal.
Tensor diagonal(const Tensor&, std::int64_t offset = 0, std::int64_t axis0 = 0, std::int64_t axis1 = 1);
Tensor tril(const Tensor&, std::int64_t diagonal = 0);  ///< zeros above that diagonal of the last two axes
Tensor triu(const Tensor&, std::int64_t diagonal = 0);  ///< zeros below it
/// Returns where(mask, value, x), in x's dtype; DTypeError for a literal that it does not have.
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
template <std::same_as<bool> B> Tensor argmax(const Tensor&, B keep_dims) = delete;  // keep_dims needs an axis
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
/// The middle element in order, of an even number the lower one, which the gradient goes to, as PyTorch's; NumPy's
/// averages both, as quantile(x, 0.5). NaN wins. Of nothing ShapeError.
Tensor median(const Tensor&, const Axes& axes = {}, bool keep_dims = false);
/// The value that the share q, from 0 to 1, of elements lies below, between the two nearest by linear interpolation.
/// NaN wins; integers give f32. Error for another q, of nothing ShapeError.
Tensor quantile(const Tensor&, double q, const Axes& axes = {}, bool keep_dims = false);
/// log(sum(exp(x))) without overflow; of nothing -inf.
Tensor logsumexp(const Tensor&, const Axes& = {}, bool keep_dims = false);
/// Product of the elements, 1 if there are none; integers and bool give i64. Gradients of every order are right where
/// elements are 0.
Tensor prod(const Tensor&, const Axes& = {}, bool keep_dims = false);
// Tests and counts of elements of any dtype; no gradient.
Tensor any_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: one is not 0, or NaN
Tensor all_true(const Tensor&, const Axes& = {}, bool keep_dims = false);       ///< bool: none is 0
Tensor count_nonzero(const Tensor&, const Axes& = {}, bool keep_dims = false);  ///< i64; NaN counts

// --- structured
/// [..., m, k] x [..., k, n], leading axes broadcast. A vector on the left is a row, one on the right a column, and
/// that axis is dropped from the result. Integers give f32.
Tensor matmul(const Tensor& lhs, const Tensor& rhs);
/// The product summed over the axes lhs_axes[i] of the one and rhs_axes[i] of the other; then come the other axes of
/// the left operand, and of the right one. With a number: over that many, the last of lhs and the first of rhs, in
/// order. ShapeError for what does not fit. Integers give f32.
Tensor tensordot(const Tensor& lhs, const Tensor& rhs, const Axes& lhs_axes, const Axes& rhs_axes);
Tensor tensordot(const Tensor& lhs, const Tensor& rhs, std::int64_t count = 2);
/// [n] and [m] -> [n, m]: column[i] * row[j]. ShapeError for other than one axis.
Tensor outer(const Tensor& column, const Tensor& row);
/// beta input + alpha matmul(lhs, rhs), batches too (PyTorch's baddbmm). The input is broadcast to the product's shape,
/// else ShapeError; with beta 0 it is not read. Integers give f32. bf16 and f16 are computed in f32 and rounded once
/// where alpha is not 1, or beta neither 0 nor 1; else the product is rounded too.
Tensor addmm(const Tensor& input, const Tensor& lhs, const Tensor& rhs, double beta = 1, double alpha = 1);
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
/// of the index, whose other axes are no longer than the input's. The gradient is added to where each came from.
/// DTypeError unless the index is of integers; ShapeError for one that does not fit, and when the kernel runs for a
/// position out of range.
Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index);
/// Rows of a table [rows, columns...] of any dtype at integer indices of any shape -> [indices..., columns...].
/// Gradients of a row that is read more than once add up. The one operation that a leaf with sparse gradients may
/// enter. DTypeError for other indices; one out of range throws ShapeError when the kernel runs.
Tensor embedding(const Tensor& table, const Tensor& indices);
/// Zeros of `shape` with each update added where `index`, of the updates' shape, points along the axis: gather's
/// gradient, and gather is its. Deterministic. PyTorch's x.scatter_add(d, i, u) is x + scatter_add(x.shape(), u, d, i).
/// Errors are gather's, and DTypeError for bools.
Tensor scatter_add(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& index);
/// A copy of x in which updates, of the index' shape and in x's dtype, change what `index` points to along the
/// axis. `set`: the last of several updates stays, and has the gradient. add, prod, max, min: all of them and x's
/// element are joined (PyTorch's scatter_reduce); of equal extremes all share the gradient. Third gradients of
/// prod are 0 where three updates of one element are. Deterministic. Errors are gather's, and DTypeError for bools
/// unless they are set.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& updates,
               Scatter kind = Scatter::set);
template <Literal T>
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, T value, Scatter kind = Scatter::set) {
  return scatter(x, axis, index, Tensor(Scalar(value)), kind);
}

}  // namespace tutti
