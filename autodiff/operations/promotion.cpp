// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/promotion.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <utility>

namespace tutti {

namespace {

using elementwise::Domain;

DType into_domain(Domain domain, std::string_view operation, DType dtype) {
  switch (domain) {
    case Domain::floating: return is_floating(dtype) ? dtype : DType::f32;
    case Domain::number: return dtype == DType::boolean ? DType::i64 : dtype;
    case Domain::bits:
      if (is_floating(dtype)) raise<DTypeError>("[{}] takes integers or bool, not {}", operation, to_string(dtype));
      return dtype;
    case Domain::any: break;
  }
  return dtype;
}

// A literal keeps its kind (bool < integer < floating) and otherwise takes the other operand's type.
DType beside_literal(DType literal, DType other) {
  if (is_floating(literal)) return is_floating(other) ? other : DType::f32;
  if (is_integral(literal)) return other == DType::boolean ? DType::i64 : other;
  return other;
}

DType own_dtype(const Tensor& tensor) {
  return tensor.is_weak_scalar() ? weak_value(tensor).default_dtype() : tensor.dtype();
}

DType common_dtype(const Tensor& lhs, const Tensor& rhs) {
  const DType a = own_dtype(lhs);
  const DType b = own_dtype(rhs);
  if (lhs.is_weak_scalar() == rhs.is_weak_scalar()) return promote(a, b);
  return lhs.is_weak_scalar() ? beside_literal(a, b) : beside_literal(b, a);
}

Tensor as(std::string_view operation, const Tensor& tensor, DType dtype, Device device) {
  if (!tensor.is_weak_scalar()) return cast(tensor, dtype);
  require_fit(operation, weak_value(tensor), dtype);
  return Tensor(backend_for(device).literal(weak_value(tensor), dtype, device));
}

Tensor promoted(Domain domain, std::string_view operation, const Tensor& x) {
  return as(operation, x, into_domain(domain, operation, own_dtype(x)), cpu(0));
}

std::pair<Tensor, Tensor> promoted(Domain domain, std::string_view operation, const Tensor& lhs, const Tensor& rhs) {
  const DType dtype = into_domain(domain, operation, common_dtype(lhs, rhs));
  const Device device = lhs.is_weak_scalar() ? (rhs.is_weak_scalar() ? cpu(0) : rhs.device()) : lhs.device();
  if (!lhs.is_weak_scalar() && !rhs.is_weak_scalar() && rhs.device() != device)
    raise<DeviceError>("[{}] operands are on different devices: {} and {}", operation, to_string(device),
                       to_string(rhs.device()));
  return {as(operation, lhs, dtype, device), as(operation, rhs, dtype, device)};
}

}  // namespace

Tensor promote_into(Domain domain, std::string_view operation, const Tensor& x) {
  if (!x.defined()) raise_undefined(operation);
  if (autocasts()) return promoted(domain, operation, autocast(operation, x));
  return promoted(domain, operation, x);
}

Tensor promote_total(std::string_view operation, const Tensor& x) {
  const Tensor number = promote_into(Domain::number, operation, x);
  return is_floating(number.dtype()) ? number : cast(number, DType::i64);
}

std::pair<Tensor, Tensor> promote_pair(Domain domain, std::string_view operation, const Tensor& lhs,
                                       const Tensor& rhs) {
  if (!lhs.defined() || !rhs.defined()) raise_undefined(operation);
  if (autocasts()) return promoted(domain, operation, autocast(operation, lhs), autocast(operation, rhs));
  return promoted(domain, operation, lhs, rhs);
}

Tensor in_dtype_of(const Tensor& x, std::string_view operation, const Tensor& value) {
  if (value.is_weak_scalar()) return as(operation, value, x.dtype(), x.device());
  return cast(promote_pair(Domain::any, operation, x, value).second, x.dtype());  // which checks the devices
}

Tensor widened(const Tensor& x) { return cast(x, computed_in(x.dtype())); }

}  // namespace tutti
