// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <string>

namespace tutti {

struct NpyOptions {
  Device device = cpu();
  bool map = true;  ///< arrays on a CPU device share a private mapping of the file (see SafetensorsOptions)
};

/// Reads one array in NumPy's .npy format, versions 1 to 3, in either byte order. An array in Fortran order comes as a
/// transposed view. Throws DataError, with path and offset, for a file that is missing, truncated, too long or
/// malformed, and for types that no Array has; Python objects among them, which could run any code.
Array read_npy(const std::string& path, const NpyOptions& = {});

/// Replaces `path` in one step. Waits for the array's device. Throws DataError naming the path, DTypeError for a type
/// that NumPy lacks.
void write_npy(const std::string& path, const Array&);

}  // namespace tutti
