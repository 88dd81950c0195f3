// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/elementwise_operations.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations/elementwise_recording.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>

namespace tutti {

using detail::record_binary;
using detail::record_unary;

namespace {

bool is_weak_two(const Tensor& x) { return x.is_weak_scalar() && weak_value(x).to<double>() == 2.0; }

bool is_bool(const Tensor& x) {
  return x.defined() && (x.is_weak_scalar() ? weak_value(x).default_dtype() : x.dtype()) == DType::boolean;
}

Tensor as_bool(const Tensor& x) {
  if (x.is_weak_scalar()) return Tensor(Scalar(weak_value(x).to<double>() != 0));  // which goes to any device
  return x.dtype() == DType::boolean ? x : x != 0;
}

}  // namespace

Tensor reciprocal(const Tensor& x) {
  const OperationScope scope("reciprocal", x);
  return 1 / autocast("reciprocal", x);
}

Tensor pow(const Tensor& a, const Tensor& b) {
  const OperationScope scope("pow", a, b);
  if (is_weak_two(b) && (is_floating(a.dtype()) || is_integral(weak_value(b).default_dtype())))
    return square(autocast("pow", a));
  return record_binary(elementwise::Pow{}, a, b);
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  const OperationScope scope("maximum", a, b);
  return is_bool(a) && is_bool(b) ? a | b : record_binary(elementwise::Maximum{}, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  const OperationScope scope("minimum", a, b);
  return is_bool(a) && is_bool(b) ? a & b : record_binary(elementwise::Minimum{}, a, b);
}
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const OperationScope scope("lerp", a, b, weight);
  // From the nearer end, so that both ends are exact.
  if (weight.is_weak_scalar()) {
    const Scalar& share = weak_value(weight);
    const bool whole = !is_floating(share.default_dtype()) && !is_floating(a.dtype()) && !is_floating(b.dtype());
    if (whole || share.to<double>() < 0.5) return a + weight * (b - a);
    return b - Tensor(Scalar(1 - share.to<double>())) * (b - a);
  }
  const Tensor near_a = weight < 0.5;
  return where(near_a, a, b) + where(near_a, weight, weight - 1) * (b - a);
}

Tensor operator-(const Tensor& x) { return record_unary(elementwise::Negate{}, x); }
Tensor operator+(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Add{}, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Subtract{}, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Multiply{}, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Divide{}, a, b); }
Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }

Tensor operator==(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Equal{}, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return record_binary(elementwise::NotEqual{}, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Less{}, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return record_binary(elementwise::LessEqual{}, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Greater{}, a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return record_binary(elementwise::GreaterEqual{}, a, b); }
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b) {
  const OperationScope scope("select", mask, a, b);
  return where(mask, a, b);
}

Tensor operator&(const Tensor& a, const Tensor& b) { return record_binary(elementwise::BitAnd{}, a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return record_binary(elementwise::BitOr{}, a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return record_binary(elementwise::BitXor{}, a, b); }
Tensor operator~(const Tensor& x) {
  const OperationScope scope("bitwise_not", x);
  if (is_floating(x.dtype())) raise<DTypeError>("[bitwise_not] takes integers or bool, not {}", to_string(x.dtype()));
  if (x.dtype() == DType::boolean) return x == false;
  return x ^ (x.dtype() == DType::u8 ? 255 : -1);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  const OperationScope scope("logical_and", a, b);
  return as_bool(a) & as_bool(b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  const OperationScope scope("logical_or", a, b);
  return as_bool(a) | as_bool(b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  const OperationScope scope("logical_xor", a, b);
  return as_bool(a) ^ as_bool(b);
}
Tensor logical_not(const Tensor& x) {
  const OperationScope scope("logical_not", x);
  return x == 0;
}

}  // namespace tutti
