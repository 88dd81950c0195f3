// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/device.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <charconv>
#include <limits>
#include <ostream>

namespace tutti {

std::string to_string(Device device) { return fmt::format("{}:{}", kind_name(device.kind), device.index); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

void detail::raise_device_index(DeviceKind kind, std::int64_t index) {
  raise<DeviceError>("[device] {}:{} is no device: its index must be 0 to {}", kind_name(kind), index,
                     std::numeric_limits<std::uint16_t>::max());
}

Device parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const DeviceKind kind = kind_named(text.substr(0, colon));
  if (colon == std::string_view::npos) return {kind, 0};
  const std::string_view digits = text.substr(colon + 1);
  unsigned index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc{} || end != digits.data() + digits.size() || index > std::numeric_limits<std::uint16_t>::max())
    raise<DeviceError>("[device] \"{}\" is no device: write kind:index, such as cpu:0", text);
  return {kind, static_cast<std::uint16_t>(index)};
}

}  // namespace tutti
