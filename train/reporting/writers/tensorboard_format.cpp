// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/writers/tensorboard_format.h>

#include <array>
#include <bit>

namespace tutti::tensorboard {
namespace {

enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}();

template <class T> void append_little_endian(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& message, int field, WireType type) {
  append_varint(message, static_cast<std::uint64_t>(field) << 3 | type);
}

std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const unsigned char byte : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ byte) & 0xff];
  return ~crc;
}

std::string record(std::string_view bytes) {
  std::string result;
  append_little_endian(result, static_cast<std::uint64_t>(bytes.size()));
  append_little_endian(result, masked_crc(result));
  result += bytes;
  append_little_endian(result, masked_crc(bytes));
  return result;
}

void put_varint(std::string& message, int field, std::uint64_t value) {
  append_key(message, field, kVarint);
  append_varint(message, value);
}

void put_float(std::string& message, int field, float value) {
  append_key(message, field, kFixed32);
  append_little_endian(message, std::bit_cast<std::uint32_t>(value));
}

void put_double(std::string& message, int field, double value) {
  append_key(message, field, kFixed64);
  append_little_endian(message, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& message, int field, std::string_view bytes) {
  append_key(message, field, kLengthDelimited);
  append_varint(message, bytes.size());
  message += bytes;
}

void put_doubles(std::string& message, int field, std::span<const double> values) {
  append_key(message, field, kLengthDelimited);
  append_varint(message, 8 * values.size());
  for (const double value : values) append_little_endian(message, std::bit_cast<std::uint64_t>(value));
}

}  // namespace tutti::tensorboard
