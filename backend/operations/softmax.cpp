// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

constexpr std::string_view name_of(SoftmaxKind kind) {
  return kind == SoftmaxKind::softmax ? "softmax" : "log_softmax";
}

}  // namespace

Array softmax(SoftmaxKind kind, const Array& input, std::int64_t axis) {
  checks::require_enumerator("softmax", "SoftmaxKind", kind, SoftmaxKind::log_softmax);
  checks::require_defined(name_of(kind), input);
  checks::require_floating(name_of(kind), input);
  if (is_narrow(input)) return softmax(kind, widened(input), axis).cast(input.dtype());
  const std::size_t place = normalize_axis(name_of(kind), axis, input.rank());
  Array result = Array::empty(input.shape(), input.dtype(), input.device());
  if (result.size() > 0) backend_for(input.device()).softmax(kind, input.contiguous(), place, result);
  return result;
}

Array softmax_gradient(SoftmaxKind kind, const Array& output, const Array& gradient, std::int64_t axis) {
  checks::require_alike(name_of(kind), output, gradient);
  checks::require_floating(name_of(kind), output);
  if (is_narrow(output)) return softmax_gradient(kind, widened(output), widened(gradient), axis).cast(output.dtype());
  checks::require_shape(name_of(kind), "the gradient", gradient, output.shape());
  const std::size_t place = normalize_axis(name_of(kind), axis, output.rank());
  Array result = Array::empty(output.shape(), output.dtype(), output.device());
  if (result.size() > 0)
    backend_for(output.device()).softmax_gradient(kind, output.contiguous(), gradient.contiguous(), place, result);
  return result;
}

}  // namespace tutti
