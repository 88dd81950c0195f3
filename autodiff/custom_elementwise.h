// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/elementwise_recording.h>
#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <type_traits>

namespace tutti {

namespace detail {
/// An operand to ask with whether a struct takes one or two.
template <class Operation> using SampleOperand =
    std::conditional_t<Operation::domain == elementwise::Domain::bits, std::int32_t, double>;
}  // namespace detail

/// An elementwise operation of the program's own: a struct as those of the library are (backend/elementwise/operation.h
/// says what it has; docs/guides/custom-operation.md has one), with any number of parameters. Its operands are promoted
/// into its domain and broadcast, and have any strides; its result has their dtype, or bool where `value` compares. It
/// is differentiated by its own formulas, any number of times. Errors name it.
///
/// On CPU devices value and gradient are a loop each over blocks of elements (backend/elementwise/lanes.h), compiled
/// with the program; bf16 and f16 are computed in f32 and rounded once. On CUDA devices they are a kernel each where
/// the program has them (backend/cuda_elementwise.cuh). On all other devices the formulas run as operations on tensors,
/// which round each by itself.
template <class Operation> Tensor elementwise_function(const Operation& operation, const Tensor& x) {
  static_assert(!elementwise::is_listed<Operation>, "the library has a function of that struct");
  static_assert(
      requires(detail::SampleOperand<Operation> e) { operation.value(e); },
      "the struct's `value` does not take one operand");
  return detail::record_unary(operation, x);
}
template <class Operation> Tensor elementwise_function(const Operation& operation, const Tensor& a, const Tensor& b) {
  static_assert(!elementwise::is_listed<Operation>, "the library has a function of that struct");
  static_assert(
      requires(detail::SampleOperand<Operation> e) { operation.value(e, e); },
      "the struct's `value` does not take two operands");
  return detail::record_binary(operation, a, b);
}
/// One of two operands may be a literal, which takes the other's dtype.
template <class Operation, Literal T> Tensor elementwise_function(const Operation& operation, const Tensor& a, T b) {
  return elementwise_function(operation, a, Tensor(Scalar(b)));
}
template <class Operation, Literal T> Tensor elementwise_function(const Operation& operation, T a, const Tensor& b) {
  return elementwise_function(operation, Tensor(Scalar(a)), b);
}

}  // namespace tutti
