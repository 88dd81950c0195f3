// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/arrays/named_arrays.h>

#include <cstdint>
#include <functional>
#include <string>

namespace tutti {

struct NpzOptions {
  Device device = cpu();
  bool map = true;  ///< stored, aligned members on a CPU device share a private mapping (see SafetensorsOptions)
  /// Most that deflated members may unpack to, all together; 0: 1 GiB or a hundred times the file, whichever is more.
  std::uint64_t most_unpacked_bytes = 0;
};

/// Reads all arrays of an .npz file, numpy.savez's and numpy.savez_compressed's. Names are those of the members without
/// ".npy". Throws DataError, with path and offset, for a file that is missing, damaged or malformed, that would unpack
/// to too much, or that holds anything but arrays (see read_npy).
NamedArrays read_npz(const std::string& path, const NpzOptions& = {});

struct NpzWriting {
  bool deflate = false;                                 ///< smaller, slower, and not to be mapped
  std::function<void(const Array&)> written = nullptr;  ///< hears of each array that is written
};

/// Replaces `path` in one step. Waits for the arrays' devices. Throws DataError naming the path, also for names that
/// are given twice, too long or not UTF-8.
void write_npz(const std::string& path, const NamedArrays&, const NpzWriting& = {});

}  // namespace tutti
