// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tutti::onnx {

/// One message in protobuf's encoding, made field by field.
class WireWriter {
 public:
  WireWriter& integer(unsigned field, std::int64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  WireWriter& number(unsigned field, float value) {
    varint(std::uint64_t{field} << 3U | 5U);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
    return *this;
  }
  WireWriter& text(unsigned field, std::string_view value) {
    varint(std::uint64_t{field} << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  WireWriter& bytes(unsigned field, std::span<const std::byte> value) {
    return text(field, {reinterpret_cast<const char*>(value.data()), value.size()});
  }
  WireWriter& message(unsigned field, const WireWriter& value) { return text(field, value.bytes_); }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace tutti::onnx
