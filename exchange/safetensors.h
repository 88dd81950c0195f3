// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/arrays/named_arrays.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tutti {

/// Named arrays and texts in one file, in the safetensors format: eight bytes with the header's length (little-endian),
/// the header in JSON, then the arrays' bytes, row-major and little-endian.
struct TensorFile {
  NamedArrays arrays;  ///< arrays in the order of the file; names are unique
  std::map<std::string, std::string> metadata;
};

struct SafetensorsOptions {
  Device device = cpu();
  /// Aligned arrays on a CPU device share a private mapping of the file: pages are read when they are used, and writes
  /// never reach the file. The file must keep its length while such an array lives. Otherwise everything is read.
  bool map = true;
  bool skip_unknown_types = false;              ///< leave out tensors of a type that no Array has, instead of DataError
  std::vector<std::string>* skipped = nullptr;  ///< takes the names of tensors that were left out
};

/// Reads any safetensors file. Throws DataError, with path and offset or tensor, for a file that is missing, truncated,
/// too long or malformed, before anything of the size that it claims is allocated.
TensorFile read_safetensors(const std::string& path, const SafetensorsOptions& = {});

struct SafetensorsWriting {
  std::function<void(const Array&)> written = nullptr;  ///< hears of each array that is written
};

/// Writes a file that every safetensors library reads. It replaces `path` in one step, also in a crash. Waits for the
/// arrays' devices. Throws DataError naming the path.
void write_safetensors(const std::string& path, const TensorFile&, const SafetensorsWriting& = {});

}  // namespace tutti
