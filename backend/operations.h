// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations on arrays, without gradients: they check their operands, make the output on the operands' device and queue
// the kernel there. Wrong shapes, dtypes or devices throw ShapeError, DTypeError or DeviceError naming the operation
// and the operands. Nothing is promoted here (autodiff does that): operands share one dtype and one device. Those that
// make the gradients of parameters take an `out`: contiguous memory to write to in place of a new array.

#include <tutti/backend/array.h>
#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/elementwise/lists.h>
#include <tutti/backend/random.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

namespace detail {
/// Broadcasts the inputs against each other and runs the kernel.
Array elementwise(std::string_view name, const ElementwiseCall&, std::span<const Array> inputs, DType output);
}  // namespace detail

/// The forward formula of any elementwise operation: `apply(elementwise::Gelu{}, x)`, `apply(elementwise::Add{}, a,
/// b)`. The result has the shape that the operands broadcast to and their dtype, of comparisons bool. DTypeError unless
/// that dtype is of the operation's domain.
template <class Operation, class... Arrays>
Array apply(const Operation& operation, const Array& first, const Arrays&... rest) {
  const Array inputs[] = {first, rest...};
  DType output = first.dtype();
  if constexpr (sizeof...(rest) == 1)
    if constexpr (elementwise::is_comparison<Operation>) output = DType::boolean;
  return detail::elementwise(Operation::name, make_call(operation, ElementwiseCall::Part::value), inputs, output);
}

/// A gradient formula of an elementwise operation; `inputs` are what it needs, in order, and the upstream gradient
/// last.
template <class Operation>
Array apply_gradient(const Operation& operation, ElementwiseCall::Part part, std::span<const Array> inputs) {
  return detail::elementwise(Operation::name, make_call(operation, part), inputs, inputs.front().dtype());
}

/// mask ? a : b, all three broadcast; mask is bool, a and b share a dtype.
Array where(const Array& mask, const Array& a, const Array& b);

/// Reduces over `axes` (negative count from the back; none given: all). f32 sums are pairwise or wider, so that the
/// error does not grow with the length. max and min of nothing throw ShapeError; its sum is 0, its product 1. The
/// result has the input's dtype; bool throws DTypeError.
Array reduce(Reduction, const Array&, std::span<const std::int64_t> axes, bool keep_dims = false);
/// reduce(Reduction::sum, ...).
Array sum(const Array&, std::span<const std::int64_t> axes = {}, bool keep_dims = false);
/// Sums `x` down to `shape`, the inverse of broadcasting; itself when the shapes agree.
Array sum_to(const Array& x, const Shape& shape, const Array& out = {});  // out is left alone when the shapes agree
/// Index (i64) of the largest or smallest along `axis`; the first of equals, and of NaN.
Array arg_reduce(ArgReduction, const Array&, std::int64_t axis, bool keep_dims = false);

/// The sum of each element and all before it along `axis`, or behind it where `reverse`; integers wrap, and floating
/// types are added in double.
Array cumsum(const Array&, std::int64_t axis, bool reverse = false);
/// Index (i64) along `axis` of the largest or smallest of each element and all before it; the last of equals, and of
/// NaN, which wins. Of bool too.
Array running_arg(ArgReduction, const Array&, std::int64_t axis);
/// A Fourier transform of the rows of a floating array of any leading axes, [..., length] or [..., length, 2], see
/// FourierTransform; bf16 and f16 are computed in f32. ShapeError for a length beyond kMostPoints.
Array fourier(const FourierTransform&, const Array&);
inline constexpr std::int64_t kMostPoints = std::int64_t{1} << 26;
/// The places (i64) along `axis` of its elements in order; equals keep theirs, and NaN is greater than any number.
Array arg_sort(const Array&, std::int64_t axis, bool descending = false);

/// [..., m, k] x [..., k, n] -> [..., m, n], leading axes broadcast; floating types. Transposed operands are passed as
/// views and cost no copy. Vectors are not promoted: both operands have rank >= 2.
Array matmul(const Array& lhs, const Array& rhs, const Array& out = {});

/// activation(x W^T + b): input [rows, in], weight [out, in], bias [out] or undefined -> [rows, out]; one dtype. As
/// fast as the product alone, nearly; on the CPU the same bits as one operation after the other.
Array linear(const Array& input, const Array& weight, const Array& bias = {},
             LinearActivation = LinearActivation::none);

/// exp(x) / sum(exp(x)) along the axis, or its logarithm, in x's shape and dtype, which is floating, else DTypeError.
Array softmax(SoftmaxKind, const Array&, std::int64_t axis);
/// The input's gradient from the forward's output y and dL/dy, of one shape: softmax y (dy - sum(dy y));
/// log_softmax dy - exp(y) sum(dy).
Array softmax_gradient(SoftmaxKind, const Array& output, const Array& gradient, std::int64_t axis);

struct NormalizedRows {
  Array output;  ///< [rows, length], in the input's dtype
  Array mean;    ///< [rows, 1], as scale in the dtype that is computed in; 0 where rows are not centred
  Array scale;   ///< 1 / sqrt(variance + epsilon)
};
/// input [rows, length] -> (input - mean) scale weight + bias. Weight and bias, [length] or undefined, have the dtype
/// that the input is computed in: f32 beside bf16 and f16.
NormalizedRows normalize_rows(const RowNorm&, const Array& input, const Array& weight = {}, const Array& bias = {});
/// scale (g - mean(g) - n mean(g n)) with n = (input - mean) scale, g = gradient weight; mean(g) only of centred rows.
Array normalize_rows_gradient(const RowNorm&, const Array& input, const Array& weight, const Array& mean,
                              const Array& scale, const Array& gradient);
struct ColumnGradients {
  Array weight;  ///< [length], as the bias
  Array bias;    ///< undefined unless asked for
};
/// The sums of gradient n and of gradient over all rows, in the dtype that is computed in.
ColumnGradients normalize_rows_column_gradients(const Array& input, const Array& mean, const Array& scale,
                                                const Array& gradient, bool with_bias, const Array& weight_out = {},
                                                const Array& bias_out = {});

struct NormalizedChannels {
  Array output;    ///< shaped and typed as the input
  Array mean;      ///< [channels], as the variance in the dtype that is computed in
  Array variance;  ///< biased
};
/// input [n, channels, ...] -> (input - mean) weight / sqrt(variance + epsilon) + bias, with the mean and variance of
/// each channel. Weight and bias, [channels] or undefined, have the dtype that the input is computed in. DeviceError
/// where the kind of device has no such kernel (FusedKernel::normalize_channels).
NormalizedChannels normalize_channels(double epsilon, const Array& input, const Array& weight = {},
                                      const Array& bias = {});
struct ChannelGradients {
  Array input;   ///< those that are not wanted are undefined
  Array weight;  ///< [channels], as the bias in the dtype that is computed in
  Array bias;
};
struct ChannelGradientsWanted {
  bool input = true;
  bool weight = true;
  bool bias = true;
  Array weight_place = {};  ///< array to write to; undefined: a new one
  Array bias_place = {};
};
ChannelGradients normalize_channels_gradient(double epsilon, const Array& input, const Array& weight, const Array& mean,
                                             const Array& variance, const Array& gradient,
                                             const ChannelGradientsWanted& = {});

struct AttentionOperands {
  Array query;  ///< [..., queries, d]
  Array key;    ///< [..., keys, d]
  Array value;  ///< [..., keys, e]
  Array mask;   ///< broadcast to [..., queries, keys]: bool, the keys that are seen, or floating, added; or undefined
};
/// Weights that are dropped: `share` of them, as the generator says, and the others grow by 1 / (1 - share).
struct AttentionDropout {
  double share = 0;
  Generator random = Generator(0);
};
struct AttentionRun {
  Array output;   ///< [..., queries, e]; of a kernel in memory in the order of the query's axes
  Array log_sum;  ///< kept for the gradient: [..., queries, 1], in the type that is computed in
};
/// softmax(scale query key^T + mask) value, leading axes broadcast; bf16 and f16 are rounded once. A query that sees no
/// key gives zeros, and no gradient. At least one query and key. ShapeError or DTypeError for what does not fit.
AttentionRun attention(const AttentionScores&, const AttentionOperands&, const AttentionDropout& = {});
/// The gradients of query, key and value from dL/d(output), of the same `dropout`.
AttentionOperands attention_gradient(const AttentionScores&, const AttentionOperands&, const AttentionRun&,
                                     const Array& gradient, const AttentionDropout& = {});
/// The factors that dropout has for weights [..., queries, keys], the first of them those of query `first_query` and
/// key `first_key`.
Array attention_factors(const AttentionScores&, const AttentionDropout&, const Shape& weights, DType, Device,
                        std::int64_t first_query = 0, std::int64_t first_key = 0);

struct RecurrentOperands {
  Array input_part;     ///< [rows, gates hidden]
  Array hidden;         ///< [batch, hidden], the state before
  Array cell;           ///< the same of an LSTM's cell; else undefined
  Array hidden_weight;  ///< [gates hidden, hidden]
  Array hidden_bias;    ///< [gates hidden] or undefined
};
struct RecurrentRun {
  /// [rows + batch, hidden], of an LSTM [rows + 2 batch, hidden]: hidden states after each step, then those of all
  /// sequences after their last, then the cells.
  Array output;
  Array kept;           ///< blocks for the gradient, as are the next two arrays; undefined unless asked for
  Array hidden_before;  ///< [rows, hidden]
  Array cell_before;    ///< [rows, hidden] of an LSTM
};
/// All steps, f32 or f64, else DTypeError: one kernel, or for each a product with the weight and one. Where there is
/// one kernel for all (FusedKernel::recurrent_steps) the weight of f32 steps, and then its gradient, may be bf16:
/// products are of bf16, too, their sums f32. ShapeError for what does not fit.
RecurrentRun recurrent_steps(const RecurrentSteps&, const RecurrentOperands&, bool keeps);
/// The gradients that are wanted beside the input part's and the cell's, which come by themselves.
struct RecurrentWanted {
  bool hidden = true;
  bool hidden_weight = true;
  bool hidden_bias = true;
};
/// dL/d(operands) from dL/d(output) and what the run kept; those of operands that are undefined, or not wanted, are
/// undefined, or anything. That of the weight is written to `weight_out` where this is defined. ShapeError for a run of
/// other steps, or one that kept nothing.
RecurrentOperands recurrent_steps_gradient(const RecurrentSteps&, const RecurrentOperands&, const RecurrentRun&,
                                           const Array& gradient, const RecurrentWanted& = {},
                                           const Array& weight_out = {});

/// out[i][j] = input[i][index[i][j]] along `axis`, as in torch.gather: index is i64, has the input's rank, and its
/// other axes are at most as long as the input's. An index out of range throws ShapeError when the kernel runs.
Array gather(const Array& input, std::int64_t axis, const Array& index);
/// zeros(shape) with updates[i][j] added at [i][index[i][j]]: the gradient of gather. Deterministic.
Array scatter_add(const Shape& shape, const Array& updates, std::int64_t axis, const Array& index,
                  const Array& out = {});

/// x with each element that the index points to changed as Scatter says: [i][index[i][j]] by updates[i][j], in order,
/// so that of several that are set the last stays. Index and updates have one shape. Deterministic.
Array scatter(Scatter, const Array& x, std::int64_t axis, const Array& index, const Array& updates);

/// Each element times `factor` with the probability `keep`, else 0, whatever it was; and which were kept (bool). Which
/// they are is the same for all floating dtypes, else DTypeError.
std::pair<Array, Array> dropout(const Array& x, double keep, double factor, Generator&);
/// x factor where kept, else 0.
Array dropout_gradient(const Array& kept, double factor, const Array& x);

/// Cross-correlation. input [n, c, h, w], weight [k, c / groups, r, s] -> [n, k, h', w'],
/// h' = (h + 2 padding - dilation (r - 1) - 1) / stride + 1. Throws ShapeError for what does not fit.
Array conv2d(const Conv2dGeometry&, const Array& input, const Array& weight);
/// dL/dinput, of shape `input`, from dL/doutput [n, k, h', w'] and the weight; dL/dweight, of shape `weight`, from
/// dL/doutput and the input. ShapeError unless the gradient has the shape that conv2d gives.
Array conv2d_input_gradient(const Conv2dGeometry&, const Array& gradient, const Array& weight, const Shape& input);
Array conv2d_weight_gradient(const Conv2dGeometry&, const Array& gradient, const Array& input, const Shape& weight,
                             const Array& out = {});
/// The output's shape, after the checks of `conv2d`, in whose errors `operation` is named.
Shape conv2d_shape(std::string_view operation, const Conv2dGeometry&, const Shape& input, const Shape& weight);

/// input [n, c, h, w], floating -> (maxima [n, c, h', w'], i64 positions h * width + w of each within its image). NaN
/// wins.
std::pair<Array, Array> max_pool2d(const Pool2dGeometry&, const Array& input);
/// Zeros of shape `input` with each element of the gradient [n, c, h', w'] added at its position in `index`, which is
/// what max_pool2d gave. ShapeError unless both have the shape of that.
Array max_pool2d_gradient(const Pool2dGeometry&, const Array& gradient, const Array& index, const Shape& input);
/// input [n, c, h, w], floating -> the mean of each window [n, c, h', w'], as torch.nn.functional.avg_pool2d.
Array avg_pool2d(const AvgPool2dGeometry&, const Array& input);
/// An array of shape `input`: each element of the gradient [n, c, h', w'], divided by what its window's sum was divided
/// by, is added to all of that window. ShapeError unless the gradient has the shape that avg_pool2d gives.
Array avg_pool2d_gradient(const AvgPool2dGeometry&, const Array& gradient, const Shape& input);
/// The output's shape, after the checks of pooling, in whose errors `operation` is named.
Shape pool2d_shape(std::string_view operation, const Pool2dGeometry&, const Shape& input);

/// Arrays of one dtype, joined along the axis. ShapeError for none, and for ranks or lengths beside the axis that
/// differ.
Array concatenate(std::span<const Array>, std::int64_t axis);

}  // namespace tutti
