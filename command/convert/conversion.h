// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::conversion {

/// The outcome of a conversion.
struct Conversion {
  std::size_t arrays = 0;
  std::uint64_t bytes = 0;         ///< bytes of all arrays, as they were written
  std::vector<std::string> notes;  ///< a line for each array or text that the new format cannot hold as it is
};

enum class Existing : std::uint8_t { refuse, replace };

/// Writes the arrays of one file to another one, which takes its name in one step, as a whole. The formats are those of
/// the names' ends: .safetensors and .npz. Names and types are kept; so are metadata, between files that have them.
/// NumPy has no bf16: such arrays become f32, which has all of its values. Throws Error for other ends, for two files
/// of one format, for an existing file unless it may be replaced, for arrays of a type that no Array has, naming all of
/// them; DataError for a file that cannot be read or written.
Conversion convert_weights(const std::string& from, const std::string& to, Existing);

}  // namespace tutti::conversion
