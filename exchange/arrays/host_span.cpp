// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/arrays/host_span.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {

void wait_for_host_memory(const Array& array) {
  checks::require_defined("host_span", array);
  if (array.device().kind != DeviceKind::cpu)
    raise<DeviceError>("[host_span] {} is not in the host's memory: copy it to a CPU device first",
                       checks::describe(array));
  compute_stream(array.device()).synchronize();
}

void detail::raise_not_contiguous(const Array& array) {
  raise<ShapeError>("[host_span] {} with strides {} is not contiguous: take contiguous() first",
                    checks::describe(array), to_string(array.strides()));
}

void detail::require_values(std::size_t values, const Shape& shape, Device device) {
  if (device.kind != DeviceKind::cpu)
    raise<DeviceError>("[array_over] {} does not use the host's memory", to_string(device));
  if (checked_element_count("array_over", shape) != static_cast<std::int64_t>(values))
    raise<ShapeError>("[array_over] {} values do not fill shape {}", values, to_string(shape));
}

}  // namespace tutti
