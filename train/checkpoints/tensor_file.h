// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/safetensors.h>

#include <string>

namespace tutti {

// Safetensors files (exchange/safetensors.h) with a checksum over all, "tutti.crc32" in the metadata: what checkpoints
// are stored in. Any safetensors library reads them; only files with the checksum can be read by these functions.

/// Writes to a temporary file beside `path`, forces it to the disk and renames it: whoever opens `path`, also after a
/// crash, finds the old file or the new one, whole. Waits for the arrays' devices. Returns the checksum. Throws
/// DataError naming the path.
std::string write_tensor_file(const std::string& path, const TensorFile&);

/// Reads everything onto `device`. Throws DataError, with path and offset, for a file that is missing, truncated, too
/// long, malformed, or whose checksum is wrong. `checksum` receives it.
TensorFile read_tensor_file(const std::string& path, Device device = cpu(), std::string* checksum = nullptr);

}  // namespace tutti
