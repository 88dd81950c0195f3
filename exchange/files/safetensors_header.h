// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/exchange/safetensors.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::detail {

/// The JSON header of a safetensors file, as text and back.
struct SafetensorsHeader {
  struct Entry {
    std::string name;
    std::string type;            ///< name of the type in the file
    std::optional<DType> dtype;  ///< none: a type that no Array has
    Shape shape;
    std::uint64_t begin = 0;  ///< first byte, counted from the end of the header
    std::uint64_t bytes = 0;
  };

  std::vector<Entry> entries;  ///< arrays in the order of their data, which leave no holes
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t kLengthBytes = 8;  ///< bytes of the header's length, at the start of the file
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// The header for a file with these arrays one after another. Throws DataError for an undefined array, names that are
/// reserved, given twice or not UTF-8.
SafetensorsHeader header_of(const std::string& path, const TensorFile&);
/// The header's text, padded to a multiple of eight bytes.
std::string to_text(const std::string& path, const SafetensorsHeader&);
/// Throws DataError, with `path` and the offset, for anything that is not a valid header.
SafetensorsHeader parse_header(const std::string& path, const std::string& text);
/// The header's text; `file` then stands at the first array. Throws DataError for a length beyond the file's.
std::string read_header_text(FileDescriptor& file, const std::string& path, std::uint64_t file_bytes);
/// The arrays must fill the file from `offset` to its end; throws DataError otherwise.
void check_size(const SafetensorsHeader&, const std::string& path, std::uint64_t offset, std::uint64_t file_bytes);

}  // namespace tutti::detail
