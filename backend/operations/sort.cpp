// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/registry.h>

namespace tutti {

Array arg_sort(const Array& input, std::int64_t axis, bool descending) {
  checks::require_defined("argsort", input);
  checks::require_number("argsort", input);
  const std::size_t place = normalize_axis("argsort", axis, input.rank());
  Array result = Array::empty(input.shape(), DType::i64, input.device());
  if (result.size() == 0) return result;
  const Array wide = is_narrow(input) ? widened(input) : input;
  backend_for(input.device()).arg_sort(wide.contiguous(), place, descending, result);
  return result;
}

}  // namespace tutti
