// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/elementwise/operation.h>

#include <string_view>
#include <utility>

namespace tutti {

/// The operand in a dtype of the operation's domain: integers become f32 for a floating domain, bool becomes i64 for
/// numbers. Differentiable. A floating operand of an operation on bits throws DTypeError naming the operation.
Tensor promote_into(elementwise::Domain, std::string_view operation, const Tensor&);

/// An operand of which many elements are added or multiplied: integers and bool become i64. Differentiable.
Tensor promote_total(std::string_view operation, const Tensor&);

/// Both operands in their common dtype, in the domain. A literal takes the other operand's device, and its dtype unless
/// that would lose its kind; a number that the dtype does not have throws DTypeError. Operands on different
/// devices throw DeviceError naming the operation and both.
std::pair<Tensor, Tensor> promote_pair(elementwise::Domain, std::string_view operation, const Tensor& lhs,
                                       const Tensor& rhs);

/// The value that is written into `x`, in its dtype: other dtypes are cast. DTypeError for a literal that the dtype
/// does not have; DeviceError for another device's.
Tensor in_dtype_of(const Tensor& x, std::string_view operation, const Tensor& value);

/// `x` in the dtype in which its own is computed: f32 for bf16 and f16. Differentiable.
Tensor widened(const Tensor& x);

}  // namespace tutti
