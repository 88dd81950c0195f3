// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/device_graph.h>
#include <tutti/backend/elementwise/call.h>
#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/memory_pool.h>
#include <tutti/backend/optimizer_rules.h>
#include <tutti/backend/stream.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tutti {

/// Drives all devices of one kind. Users call the functions of `backend/operations.h`, which check their operands, make
/// the output and call the backend of its device; a backend may therefore trust shapes, dtypes and devices, and that
/// outputs have elements. Of narrow dtypes (bf16, f16, i8, u8) it sees what moves elements, casts, elementwise
/// operations and `scatter`; for all else they are widened before. Every kernel is queued on the compute stream of
/// its output's device. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- devices
  virtual void check(Device) const = 0;  ///< throws `DeviceError` if there is no such device
  virtual MemoryPool& pool(Device) = 0;
  virtual Stream& compute_stream(Device) = 0;
  virtual Stream& communication_stream(Device) = 0;
  /// Makes a graph of what `work` has this backend queue on the device's compute stream: nothing of it runs now. Work
  /// of other threads goes on as always. `work` passes no values to or from the host. Temporary memory comes from
  /// `scratch`, which nobody else uses and which outlives the graph. CaptureError if the device cannot do it. Null:
  /// this kind of device has no graphs.
  virtual std::unique_ptr<DeviceGraph> make_graph(Device, MemoryPool& scratch, const std::function<void()>& work);

  // --- moving data. Host pointers are row-major and contiguous, as is the array.
  virtual void copy_from_host(const void* from, const Array& to) = 0;  ///< `from` may be reused on return
  virtual void copy_to_host(const Array& from, void* to) = 0;          ///< waits for the compute stream
  virtual void copy(const Array& from, const Array& to) = 0;           ///< same device, shape and dtype; any strides
  /// Copies from another device, of the same kind or of any but the CPU's; same shape and dtype, contiguous. Default:
  /// through the host.
  virtual void copy_from_device(const Array& from, const Array& to);
  virtual void cast(const Array& from, const Array& to) = 0;  ///< same device and shape
  virtual void fill(const Array& to, Scalar) = 0;
  /// first, first + step, ... into one contiguous axis. Default: from the host; a kind that makes graphs has a kernel.
  virtual void arange(const Array& to, std::int64_t first, std::int64_t step);
  /// A number of a program's text, without axes, for operands: nobody writes to it. Others may have the same array.
  virtual Array literal(Scalar, DType, Device);

  // --- elementwise; inputs are already broadcast to the output's shape (stride 0)
  virtual void elementwise(const ElementwiseCall&, std::span<const Array> inputs, const Array& output) = 0;
  virtual void where(const Array& mask, const Array& a, const Array& b, const Array& output) = 0;

  // --- reductions; the output has the input's rank, with length 1 on the reduced axes
  virtual void reduce(Reduction, const Array& input, const Array& output) = 0;
  /// i64: the first of equals.
  virtual void arg_reduce(ArgReduction, const Array& input, std::size_t axis, const Array& output) = 0;

  // --- along one axis; operands are contiguous
  virtual void cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) = 0;
  /// i64: where the extreme of each element and all before it stands, the last of equals.
  virtual void running_arg(ArgReduction, const Array& input, std::size_t axis, const Array& output) = 0;
  virtual void arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) = 0;  ///< i64

  /// Rows of f32 or f64, at least one, of kMostPoints (backend/operations.h) at most. The input of complex_to_real may
  /// be overwritten, and its imaginary parts at both ends are 0 where these are real.
  virtual void fourier(const FourierTransform&, const Array& input, const Array& output) = 0;

  // --- structured operations; shapes as documented in backend/operations.h. Operands are contiguous, but for matmul's.
  /// [..., m, k] x [..., k, n]. Leading axes are already broadcast (any stride, also 0). Of an operand's last two axes
  /// one has stride 1, the other at least the first's length. The output is contiguous; k > 0.
  virtual void matmul(const Array& lhs, const Array& rhs, const Array& output) = 0;
  /// activation(input x weight + bias): [m, k] x [k, n], laid out as matmul's operands, the bias [n] contiguous, or
  /// undefined: none. By default one operation after the other.
  virtual void linear(const Array& input, const Array& weight, const Array& bias, LinearActivation,
                      const Array& output);
  /// Adds the bias to linear's product in `output`, then applies the activation.
  void finish_linear(const Array& bias, LinearActivation, const Array& output);
  /// True if `matmul` takes a narrow dtype as it is, with sums in f32; else it sees widened operands.
  virtual bool multiplies(DType) const { return false; }
  virtual void softmax(SoftmaxKind, const Array& input, std::size_t axis, const Array& output) = 0;
  virtual void softmax_gradient(SoftmaxKind, const Array& output, const Array& gradient, std::size_t axis,
                                const Array& input_gradient) = 0;
  /// input [rows, length] -> output (input - mean) scale weight + bias, and the mean and scale = 1 / sqrt(variance +
  /// epsilon) of each row, [rows, 1]. Weight and bias [length] or undefined.
  virtual void normalize_rows(const RowNorm&, const Array& input, const Array& weight, const Array& bias,
                              const Array& output, const Array& mean, const Array& scale) = 0;
  virtual void normalize_rows_gradient(const RowNorm&, const Array& input, const Array& weight, const Array& mean,
                                       const Array& scale, const Array& gradient, const Array& input_gradient) = 0;
  /// Sums of gradient (input - mean) scale, and of the gradient (undefined: not wanted), over parts of the rows:
  /// [parts, length], part i the rows from i rows / parts on.
  virtual void normalize_rows_sums(const Array& input, const Array& mean, const Array& scale, const Array& gradient,
                                   const Array& weight_sums, const Array& bias_sums) = 0;
  /// The index has any strides: where it is repeated (stride 0) along the axes behind `axis`, it selects rows.
  virtual void gather(const Array& input, std::size_t axis, const Array& index, const Array& output) = 0;
  /// Changes what the output holds, in the order of the index, which has any strides. Narrow dtypes are added and set
  /// alone, and rounded at each addition.
  virtual void scatter(Scatter, const Array& updates, std::size_t axis, const Array& index, const Array& output) = 0;
  virtual void conv2d(const Conv2dGeometry&, const Array& input, const Array& weight, const Array& output) = 0;
  virtual void conv2d_input_gradient(const Conv2dGeometry&, const Array& gradient, const Array& weight,
                                     const Array& input_gradient) = 0;
  virtual void conv2d_weight_gradient(const Conv2dGeometry&, const Array& gradient, const Array& input,
                                      const Array& weight_gradient) = 0;
  virtual void max_pool2d(const Pool2dGeometry&, const Array& input, const Array& output, const Array& index) = 0;
  virtual void max_pool2d_gradient(const Pool2dGeometry&, const Array& gradient, const Array& index,
                                   const Array& input_gradient) = 0;
  virtual void avg_pool2d(const AvgPool2dGeometry&, const Array& input, const Array& output) = 0;
  virtual void avg_pool2d_gradient(const AvgPool2dGeometry&, const Array& gradient, const Array& input_gradient) = 0;

  // --- matrices [..., rows, columns], f32 or f64, contiguous; one that has no such result throws LinearAlgebraError
  // when the kernel runs (backend/matrix_defect.h)
  virtual void factorize(Factorization, const Array& input, const Array& output) = 0;
  /// input[permutation] = L U, by partial pivoting: L's ones are not stored, U is the rest, and a 0 on its diagonal no
  /// error. permutation i64 [..., n], its sign [..., 1] in the input's dtype.
  virtual void lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) = 0;
  virtual void solve_triangular(const TriangularSystem&, const Array& matrix, const Array& right,
                                const Array& output) = 0;

  // --- random numbers: functions of (seed, stream, element's row-major index) alone
  /// True if kernels take what stands at `RandomCall::place` (`placed`, backend/philox.h, in the order of the device's
  /// work): then captured steps' graphs hold them. Else `place` is null in every call.
  virtual bool draws_at_places() const { return false; }
  virtual void random(const RandomCall&, const Array& output) = 0;
  /// Dropout of a contiguous floating array, narrow ones too: kept (bool) is true where the draw is below `keep`, and
  /// output = kept ? input factor : 0.
  virtual void dropout(const DropoutCall&, const Array& input, const Array& output, const Array& kept) = 0;
  /// output = kept ? input factor : 0, contiguous.
  virtual void dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) = 0;

  // --- optimizers
  /// A step of many parameters of one device and dtype, no two of which share memory: one pass over them.
  virtual void optimizer_step(const OptimizerRule&, std::span<const RuleOperands> parameters) = 0;
};

}  // namespace tutti
