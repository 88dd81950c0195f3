// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::tensorboard {

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// One record of a TFRecord file: length, its checksum, the bytes, theirs. Checksums are rotated and shifted, as the
/// format has it.
std::string record(std::string_view bytes);

// Fields of protocol buffers' wire format (protobuf.dev/programming-guides/encoding), appended to a message.
void put_varint(std::string& message, int field, std::uint64_t value);
void put_float(std::string& message, int field, float value);
void put_double(std::string& message, int field, double value);
void put_bytes(std::string& message, int field, std::string_view bytes);  ///< takes texts and messages within, too
void put_doubles(std::string& message, int field, std::span<const double> values);

}  // namespace tutti::tensorboard
