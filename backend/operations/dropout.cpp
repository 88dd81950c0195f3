// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

namespace tutti {

std::pair<Array, Array> dropout(const Array& x, double keep, double factor, Generator& generator) {
  checks::require_defined("dropout", x);
  checks::require_floating("dropout", x);
  Array output = Array::empty(x.shape(), x.dtype(), x.device());
  Array kept = Array::empty(x.shape(), DType::boolean, x.device());
  const RandomCall draw = generator.next({}, static_cast<std::uint64_t>(x.size()), DType::f32);
  if (x.size() > 0)
    backend_for(x.device()).dropout({draw, static_cast<float>(keep), factor}, x.contiguous(), output, kept);
  return {std::move(output), std::move(kept)};
}

Array dropout_gradient(const Array& kept, double factor, const Array& x) {
  checks::require_same_device("dropout_gradient", kept, x);
  checks::require_dtype("dropout_gradient", kept, DType::boolean);
  checks::require_floating("dropout_gradient", x);
  checks::require_shape("dropout_gradient", "kept", kept, x.shape());
  Array result = Array::empty(x.shape(), x.dtype(), x.device());
  if (x.size() > 0) backend_for(x.device()).dropout_gradient(factor, kept.contiguous(), x.contiguous(), result);
  return result;
}

}  // namespace tutti
