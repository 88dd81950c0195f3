// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/backend/widening.h>

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

}  // namespace tutti
