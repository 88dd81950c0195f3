// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>

namespace tutti {

/// The kind of a device: what drives it. Values from `first_custom` on are handed out by `register_backend`.
enum class DeviceKind : std::uint8_t { cpu = 0, cuda = 1, first_custom = 2 };

/// A place where arrays live and their operations run: `cpu:0`, `cuda:1`. A plain value, free to copy. CPU devices are
/// as many as are asked for: each has its own threads, streams and memory pool.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint16_t index = 0;

  friend auto operator<=>(const Device&, const Device&) = default;
};

namespace detail {
[[noreturn]] void raise_device_index(DeviceKind, std::int64_t index);
constexpr Device indexed(DeviceKind kind, std::int64_t index) {
  if (index < 0 || index > std::numeric_limits<std::uint16_t>::max()) raise_device_index(kind, index);
  return {kind, static_cast<std::uint16_t>(index)};
}
}  // namespace detail

// DeviceError for an index below 0 or above 65535.
constexpr Device cpu(std::int64_t index = 0) { return detail::indexed(DeviceKind::cpu, index); }
constexpr Device cuda(std::int64_t index = 0) { return detail::indexed(DeviceKind::cuda, index); }

/// "cpu:0".
std::string to_string(Device);
std::ostream& operator<<(std::ostream&, Device);

/// Inverse of `to_string`; "cpu" means "cpu:0". Throws `DeviceError` for an unknown kind or a bad index.
Device parse_device(std::string_view text);

}  // namespace tutti

template <> struct std::hash<tutti::Device> {
  std::size_t operator()(tutti::Device device) const noexcept {
    return (static_cast<std::size_t>(device.kind) << 16U) | device.index;
  }
};
