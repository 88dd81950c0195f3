// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/elementwise_operations.h>

#include <tutti/autodiff/operations/elementwise_recording.h>
#include <tutti/autodiff/tensor/operation_scope.h>

#include <cmath>
#include <limits>
#include <string_view>

namespace tutti {

using detail::record_binary;
using detail::record_unary;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Integers are whole already.
template <class Operation> Tensor in_steps(const Operation& operation, const Tensor& x) {
  const OperationScope scope(Operation::name, x);
  return is_floating(x.dtype()) ? record_unary(operation, x) : x;
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 0x1.FEp127;
    case DType::f16: return 65504;
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

}  // namespace

#define TUTTI_UNARY(Operation, function, ...)                                                           \
  static_assert(elementwise::Operation::name == std::string_view(#function), "another name in errors"); \
  Tensor function(const Tensor& x TUTTI_DOUBLES(__VA_ARGS__)) {                                         \
    return record_unary(elementwise::Operation{TUTTI_NAMES(__VA_ARGS__)}, x);                           \
  }
#define TUTTI_BINARY(Operation, function)                                                               \
  static_assert(elementwise::Operation::name == std::string_view(#function), "another name in errors"); \
  Tensor function(const Tensor& a, const Tensor& b) { return record_binary(elementwise::Operation{}, a, b); }
#include <tutti/backend/elementwise/operation_list.h>

Tensor floor(const Tensor& x) { return in_steps(elementwise::Floor{}, x); }
Tensor ceil(const Tensor& x) { return in_steps(elementwise::Ceil{}, x); }
Tensor round(const Tensor& x) { return in_steps(elementwise::Round{}, x); }
Tensor trunc(const Tensor& x) { return in_steps(elementwise::Trunc{}, x); }

Tensor clip(const Tensor& x, const Scalar& low, const Scalar& high) {
  const OperationScope scope("clip", x);
  if (is_floating(x.dtype())) return record_unary(elementwise::Clip{low.to<double>(), high.to<double>()}, x);
  const auto is_bound = [](const Scalar& end) { return std::isfinite(end.to<double>()); };
  if (is_bound(low)) require_fit("clip", low, x.dtype());
  if (is_bound(high)) require_fit("clip", high, x.dtype());
  const Tensor above = is_bound(low) ? maximum(x, Tensor(low)) : x;
  return is_bound(high) ? minimum(above, Tensor(high)) : above;
}

Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high) {
  const OperationScope scope("clip", x);
  const Tensor above = low.defined() ? where(x < low, low, x) : x;
  return high.defined() ? where(above > high, high, above) : above;
}

Tensor isnan(const Tensor& x) {
  const OperationScope scope("isnan", x);
  return x != x;
}
Tensor isinf(const Tensor& x) {
  const OperationScope scope("isinf", x);
  return is_floating(x.dtype()) ? abs(x) == kInfinity : isnan(x);
}
Tensor isfinite(const Tensor& x) {
  const OperationScope scope("isfinite", x);
  return is_floating(x.dtype()) ? abs(x) < kInfinity : x == x;
}
Tensor nan_to_num(const Tensor& x, double nan, double infinity, double minus_infinity) {
  const OperationScope scope("nan_to_num", x);
  if (!is_floating(x.dtype())) return x;
  const double largest = largest_of(x.dtype());
  const Tensor finite = where(isnan(x), nan, where(x == kInfinity, std::isnan(infinity) ? largest : infinity, x));
  return where(x == -kInfinity, std::isnan(minus_infinity) ? -largest : minus_infinity, finite);
}

}  // namespace tutti
