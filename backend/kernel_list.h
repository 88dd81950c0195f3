// SPDX-License-Identifier: Apache-2.0

// The kernels: what `Backend` asks a kind of device for, once. Whoever includes this says before what becomes of each:
//
//   #define TUTTI_KERNEL(name, ...) void name(TUTTI_PARAMETERS(__VA_ARGS__)) override;
//   #include <tutti/backend/kernel_list.h>
//
// From here come the virtual functions of `Backend`, those of the CPU's and CUDA's backends, `KernelDispatch`, and with
// it captures and the backends of tests. Parameters are (type, name); arrays are `In`, which is read, `Out`, which is
// written, or `InOut`, which is changed, each a `const Array&` to the function; several that are written are `Outs`, a
// `std::span<const Array>`. A kernel that has a default, made of others where nothing else is said, is a
// TUTTI_KERNEL_WITH_DEFAULT, which counts as a TUTTI_KERNEL where it is not defined. One that does what others do one
// after the other is a TUTTI_FUSED_KERNEL, which counts as one with a default: it is asked for where
// `Backend::has_fused` says that there is one, and the default throws DeviceError.

#ifndef TUTTI_KERNEL
#error "define TUTTI_KERNEL(name, ...) before, see the top of backend/kernel_list.h"
#endif
#ifndef TUTTI_KERNEL_WITH_DEFAULT
#define TUTTI_KERNEL_WITH_DEFAULT TUTTI_KERNEL
#endif
#ifndef TUTTI_FUSED_KERNEL
#define TUTTI_FUSED_KERNEL TUTTI_KERNEL_WITH_DEFAULT
#endif

// --- moving data
/// Same device, shape and dtype; any strides.
TUTTI_KERNEL(copy, (In, from), (Out, to))
/// Same device and shape.
TUTTI_KERNEL(cast, (In, from), (Out, to))
TUTTI_KERNEL(fill, (Out, to), (Scalar, value))
/// first, first + step, ... into one contiguous axis. Default: from the host; a kind that makes graphs has a kernel.
TUTTI_KERNEL_WITH_DEFAULT(arange, (Out, to), (std::int64_t, first), (std::int64_t, step))

// --- elementwise; inputs are already broadcast to the output's shape (stride 0)
TUTTI_KERNEL(elementwise, (const ElementwiseCall&, call), (std::span<const Array>, inputs), (Out, output))
TUTTI_KERNEL(where, (In, mask), (In, a), (In, b), (Out, output))

// --- reductions; the output has the input's rank, with length 1 on the reduced axes
TUTTI_KERNEL(reduce, (Reduction, kind), (In, input), (Out, output))
/// i64: the first of equals.
TUTTI_KERNEL(arg_reduce, (ArgReduction, kind), (In, input), (std::size_t, axis), (Out, output))

// --- along one axis; operands are contiguous
TUTTI_KERNEL(cumsum, (In, input), (std::size_t, axis), (bool, reverse), (Out, output))
/// i64: where the extreme of each element and all before it stands, the last of equals.
TUTTI_KERNEL(running_arg, (ArgReduction, kind), (In, input), (std::size_t, axis), (Out, output))
/// i64.
TUTTI_KERNEL(arg_sort, (In, input), (std::size_t, axis), (bool, descending), (Out, output))

/// Rows of f32 or f64, at least one, of kMostPoints (backend/operations.h) at most. The input of complex_to_real may
/// be overwritten, and its imaginary parts at both ends are 0 where these are real.
TUTTI_KERNEL(fourier, (const FourierTransform&, transform), (In, input), (Out, output))

// --- structured operations; shapes as documented in backend/operations.h. Operands are contiguous, but for matmul's.
/// [..., m, k] x [..., k, n]. Leading axes are already broadcast (any stride, also 0). Of an operand's last two axes
/// one has stride 1, the other at least the first's length. The output is contiguous; k > 0.
TUTTI_KERNEL(matmul, (In, lhs), (In, rhs), (Out, output))
/// activation(input x weight + bias): [m, k] x [k, n], laid out as matmul's operands, the bias [n] contiguous, or
/// undefined: none. By default one operation after the other.
TUTTI_KERNEL_WITH_DEFAULT(linear, (In, input), (In, weight), (In, bias), (LinearActivation, activation), (Out, output))
TUTTI_KERNEL(softmax, (SoftmaxKind, kind), (In, input), (std::size_t, axis), (Out, output))
TUTTI_KERNEL(softmax_gradient, (SoftmaxKind, kind), (In, output), (In, gradient), (std::size_t, axis),
             (Out, input_gradient))
/// Attention of queries [..., queries, d] over keys [..., keys, d] and values [..., keys, e], f32, f64 or of a dtype
/// that the backend `attends` to, none empty, whose last axis has stride 1 unless its length is 1, the others any, also
/// 0. The mask is bool or of the dtype that they are computed in, broadcast to [..., queries, keys] with any strides,
/// or undefined. To the output [..., queries, e], laid out as the operands and of their dtype, and to the contiguous
/// log_sum [..., queries, 1], the logarithm of the sum of exp(score), in the type that is computed in, 0 where no key
/// is seen.
TUTTI_FUSED_KERNEL(attention, (const AttentionScores&, scores), (In, query), (In, key), (In, value), (In, mask),
                   (Out, output), (Out, log_sum))
/// Gradients of attention, from dL/d(output), each laid out as the operands and of their dtype.
TUTTI_FUSED_KERNEL(attention_gradient, (const AttentionScores&, scores), (In, query), (In, key), (In, value),
                   (In, mask), (In, output), (In, log_sum), (In, gradient), (Out, query_gradient), (Out, key_gradient),
                   (Out, value_gradient))
/// input [rows, length] -> output (input - mean) scale weight + bias, and the mean and scale = 1 / sqrt(variance +
/// epsilon) of each row, [rows, 1]. Weight and bias [length] or undefined.
TUTTI_KERNEL(normalize_rows, (const RowNorm&, norm), (In, input), (In, weight), (In, bias), (Out, output), (Out, mean),
             (Out, scale))
TUTTI_KERNEL(normalize_rows_gradient, (const RowNorm&, norm), (In, input), (In, weight), (In, mean), (In, scale),
             (In, gradient), (Out, input_gradient))
/// Sums of gradient (input - mean) scale, and of the gradient (undefined: not wanted), over parts of the rows:
/// [parts, length], part i the rows from i rows / parts on.
TUTTI_KERNEL(normalize_rows_sums, (In, input), (In, mean), (In, scale), (In, gradient), (Out, weight_sums),
             (Out, bias_sums))
/// input [n, channels, size] -> output (input - mean) weight / sqrt(variance + epsilon) + bias, and the mean and the
/// biased variance of each channel. Numbers of channels are [channels], in the dtype that the input's is computed in;
/// weight and bias may be undefined.
TUTTI_FUSED_KERNEL(normalize_channels, (double, epsilon), (In, input), (In, weight), (In, bias), (Out, output),
                   (Out, mean), (Out, variance))
/// Gradients of normalize_channels, from dL/d(output), each or undefined: not wanted; dtypes as there.
TUTTI_FUSED_KERNEL(normalize_channels_gradient, (double, epsilon), (In, input), (In, weight), (In, mean),
                   (In, variance), (In, gradient), (Out, input_gradient), (Out, weight_gradient), (Out, bias_gradient))
/// The index has any strides: where it is repeated (stride 0) along the axes behind `axis`, it selects rows.
TUTTI_KERNEL(gather, (In, input), (std::size_t, axis), (In, index), (Out, output))
/// Changes what the output holds, in the order of the index, which has any strides. Narrow dtypes are added and set
/// alone, and rounded at each addition.
TUTTI_KERNEL(scatter, (Scatter, kind), (In, updates), (std::size_t, axis), (In, index), (InOut, output))
/// One time step of `batch` sequences, f32 or f64. The input's part and the product, of the hidden state before with
/// its weights, are [batch, gates hidden], the bias of the product [gates hidden] or undefined; hidden and cell [batch,
/// hidden] are the states, the cell undefined unless there is one. The hidden state after is written to `output`, too.
/// What the gradient wants of the step, undefined where there will be none: the blocks `kept` [batch, kept hidden] and
/// the states before, that of a cell where there is one.
TUTTI_KERNEL(recurrent_step, (RecurrentGates, gates), (In, input_part), (In, product), (In, bias), (InOut, hidden),
             (InOut, cell), (Out, output), (Out, kept), (Out, hidden_before), (Out, cell_before))
/// Its gradient, from dL/d(output): those of the input's part and of the product, undefined where it is the same, as it
/// is but for GRU. The gradients of the states after, to the first of which dL/d(output) is added, become those of the
/// states before, but for what comes by the product.
TUTTI_KERNEL(recurrent_step_gradient, (RecurrentGates, gates), (In, kept), (In, hidden_before), (In, cell_before),
             (In, gradient), (Out, input_gradient), (Out, product_gradient), (InOut, hidden_gradient),
             (InOut, cell_gradient))
/// All steps, each a product with the weight [gates hidden, hidden], laid out as matmul's operands, and what
/// recurrent_step does: with the rows of all steps in `input_part`, `output` and what the gradient wants. A weight of
/// bf16 beside f32 multiplies states that are rounded to bf16.
TUTTI_FUSED_KERNEL(recurrent_steps, (const RecurrentSteps&, steps), (In, input_part), (In, weight), (In, bias),
                   (InOut, hidden), (InOut, cell), (Out, output), (Out, kept), (Out, hidden_before), (Out, cell_before))
/// Gradient of recurrent_steps, which ends with that of the first state where `to_hidden`.
TUTTI_FUSED_KERNEL(recurrent_steps_gradient, (const RecurrentSteps&, steps), (bool, to_hidden), (In, weight),
                   (In, kept), (In, hidden_before), (In, cell_before), (In, gradient), (Out, input_gradient),
                   (Out, product_gradient), (InOut, hidden_gradient), (InOut, cell_gradient))
TUTTI_KERNEL(conv2d, (const Conv2dGeometry&, geometry), (In, input), (In, weight), (Out, output))
TUTTI_KERNEL(conv2d_input_gradient, (const Conv2dGeometry&, geometry), (In, gradient), (In, weight),
             (Out, input_gradient))
TUTTI_KERNEL(conv2d_weight_gradient, (const Conv2dGeometry&, geometry), (In, gradient), (In, input),
             (Out, weight_gradient))
TUTTI_KERNEL(max_pool2d, (const Pool2dGeometry&, geometry), (In, input), (Out, output), (Out, index))
TUTTI_KERNEL(max_pool2d_gradient, (const Pool2dGeometry&, geometry), (In, gradient), (In, index), (Out, input_gradient))
TUTTI_KERNEL(avg_pool2d, (const AvgPool2dGeometry&, geometry), (In, input), (Out, output))
TUTTI_KERNEL(avg_pool2d_gradient, (const AvgPool2dGeometry&, geometry), (In, gradient), (Out, input_gradient))

// --- matrices [..., rows, columns], f32 or f64, contiguous; one that has no such result throws LinearAlgebraError
// when the kernel runs (backend/calls/matrix_defect.h)
TUTTI_KERNEL(factorize, (Factorization, kind), (In, input), (Out, output))
/// input[permutation] = L U, by partial pivoting: L's ones are not stored, U is the rest, and a 0 on its diagonal no
/// error. permutation i64 [..., n], its sign [..., 1] in the input's dtype.
TUTTI_KERNEL(lu, (In, input), (Out, factors), (Out, permutation), (Out, sign))
TUTTI_KERNEL(solve_triangular, (const TriangularSystem&, system), (In, matrix), (In, right), (Out, output))

// --- random numbers: functions of (seed, stream, element's row-major index) alone
TUTTI_KERNEL(random, (const RandomCall&, call), (Out, output))
/// Dropout of a contiguous floating array, narrow ones too: kept (bool) is true where the draw is below `keep`, and
/// output = kept ? input factor : 0.
TUTTI_KERNEL(dropout, (const DropoutCall&, call), (In, input), (Out, output), (Out, kept))
/// output = kept ? input factor : 0, contiguous.
TUTTI_KERNEL(dropout_gradient, (double, factor), (In, kept), (In, input), (Out, output))

// --- optimizers
/// A step of many parameters of one device and dtype, no two of which share memory: one pass over them.
TUTTI_KERNEL(optimizer_step, (const OptimizerRule&, rule), (std::span<const RuleOperands>, parameters))

// --- kernels of programs
/// What the kernel's function for this kind of device does, see backend/custom_kernel.h: operands are as the caller has
/// them, an output may be without elements, not all of them. Default: the function for the outputs' kind, on its
/// compute stream; DeviceError where there is none.
TUTTI_KERNEL_WITH_DEFAULT(custom, (const CustomKernel&, kernel), (std::span<const Array>, inputs), (Outs, outputs))

#undef TUTTI_FUSED_KERNEL
#undef TUTTI_KERNEL_WITH_DEFAULT
#undef TUTTI_KERNEL
