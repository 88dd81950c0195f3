// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every differentiable operation. Operands are promoted to a common dtype and broadcast (NumPy's rules); gradients are
// summed back to each operand's shape. Operands on different devices throw DeviceError. Errors name the operation.

#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/kernel_arguments.h>

#include <initializer_list>
#include <span>

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
Tensor permute(const Tensor&, std::initializer_list<std::int64_t> axes);
Tensor transpose(const Tensor&, std::int64_t axis0 = -2, std::int64_t axis1 = -1);
Tensor broadcast_to(const Tensor&, const Shape&);
/// Sums what broadcasting repeated; the inverse of broadcast_to. With a destination: written there, not recorded.
Tensor sum_to(const Tensor&, const Shape&, const Array& destination = {});
Tensor flatten(const Tensor&, std::int64_t first_axis = 1);  ///< [n, c, h, w] -> [n, c*h*w]
Tensor slice(const Tensor&, std::int64_t axis, std::int64_t begin, std::int64_t end);
Tensor concatenate(std::span<const Tensor>, std::int64_t axis);  ///< in the dtype all are promoted to
Tensor to(const Tensor&, Device);                                ///< differentiable copy

// --- reductions; no axes: all
Tensor sum(const Tensor&, std::initializer_list<std::int64_t> axes = {}, bool keep_dims = false);
Tensor mean(const Tensor&, std::initializer_list<std::int64_t> axes = {}, bool keep_dims = false);
Tensor max(const Tensor&, std::int64_t axis, bool keep_dims = false);     ///< the gradient goes to the first maximum
Tensor argmax(const Tensor&, std::int64_t axis, bool keep_dims = false);  ///< i64, no gradient

// --- structured
Tensor matmul(const Tensor& lhs, const Tensor& rhs);  ///< [..., m, k] x [..., k, n]
/// activation(x W^T + b) over the last axis, in one pass; weight [out, in].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              LinearActivation = LinearActivation::none);
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const Conv2dGeometry& = {});
Tensor max_pool2d(const Tensor& input, const Pool2dGeometry& = {});
Tensor softmax(const Tensor&, std::int64_t axis = -1);
Tensor log_softmax(const Tensor&, std::int64_t axis = -1);
Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index);
/// Rows of a table [rows, columns...] at i64 indices of any shape -> [indices..., columns...]. The one operation that a
/// leaf with sparse gradients may enter. An index out of range throws ShapeError when the kernel runs.
Tensor embedding(const Tensor& table, const Tensor& indices);
Tensor scatter_add(const Shape&, const Tensor& updates, std::int64_t axis, const Tensor& index);

}  // namespace tutti
