// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/registry.h>

namespace tutti {

Array cumsum(const Array& input, std::int64_t axis, bool reverse) {
  checks::require_defined("cumsum", input);
  checks::require_number("cumsum", input);
  const std::size_t place = normalize_axis("cumsum", axis, input.rank());
  if (is_narrow(input)) return narrowed("cumsum", cumsum(widened(input), axis, reverse), input.dtype());
  Array result = Array::empty(input.shape(), input.dtype(), input.device());
  if (result.size() > 0) backend_for(input.device()).cumsum(input.contiguous(), place, reverse, result);
  return result;
}

Array running_arg(ArgReduction kind, const Array& input, std::int64_t axis) {
  const std::string_view name = kind == ArgReduction::arg_max ? "cummax" : "cummin";
  checks::require_defined(name, input);
  const std::size_t place = normalize_axis(name, axis, input.rank());
  if (is_narrow(input)) return running_arg(kind, widened(input), axis);
  if (input.dtype() == DType::boolean) return running_arg(kind, input.cast(DType::i32), axis);
  const Array result = Array::empty(input.shape(), DType::i64, input.device());
  if (result.size() > 0) backend_for(input.device()).running_arg(kind, input.contiguous(), place, result);
  return result;
}

}  // namespace tutti
