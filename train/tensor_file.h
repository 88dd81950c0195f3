// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Named arrays and texts in one file, in the safetensors format: eight bytes with the header's length (little-endian),
/// the header in JSON, then the arrays' bytes, row-major and little-endian. Files can be read by any safetensors
/// library; only those with our checksum, "tutti.crc32" in the metadata, can be read here.
struct TensorFile {
  std::vector<std::pair<std::string, Array>> arrays;  ///< in the order of the file; names are unique
  std::map<std::string, std::string> metadata;
};

/// Writes to a temporary file beside `path`, forces it to the disk and renames it: whoever opens `path`, also after a
/// crash, finds the old file or the new one, whole. Waits for the arrays' devices. Throws DataError naming the path.
void write_tensor_file(const std::string& path, const TensorFile&);

/// Reads everything onto `device`. Throws DataError, with path and offset, for a file that is missing, truncated, too
/// long, malformed, or whose checksum is wrong.
TensorFile read_tensor_file(const std::string& path, Device device = cpu());

}  // namespace tutti
