// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operations/widening.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/registry.h>

namespace tutti {

Array narrowed(std::string_view operation, const Array& wide, DType dtype, const Array& out) {
  Array result = checks::output(operation, out, wide.shape(), dtype, wide.device());
  if (result.size() > 0) backend_for(wide.device()).cast(wide, result);
  return result;
}

}  // namespace tutti
