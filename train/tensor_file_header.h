// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>
#include <tutti/train/tensor_file.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::detail {

/// The JSON header of a tensor file, as text and back.
struct TensorFileHeader {
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::uint64_t bytes = 0;
  };

  std::vector<Entry> entries;  ///< in the order of their data, which leave no holes
  std::map<std::string, std::string> metadata;
  std::string checksum;  ///< eight hexadecimal digits
};

inline constexpr std::uint64_t kLengthBytes = 8;  ///< of the header's length, at the start of the file
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr const char* kChecksumKey = "tutti.crc32";
inline constexpr const char* kNoChecksum = "00000000";  ///< stands in the header while the checksum is computed

/// Padded to a multiple of eight bytes. Throws DataError for names and texts that are not UTF-8.
std::string to_text(const std::string& path, const TensorFileHeader&);
/// Throws DataError, with `path` and where it can the offset, for anything that is not a valid header.
TensorFileHeader parse_header(const std::string& path, const std::string& text);
/// Place of the checksum's digits in the header's text; npos if there is none.
std::size_t checksum_position(const std::string& text);

}  // namespace tutti::detail
