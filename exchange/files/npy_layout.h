// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/files/npy_header.h>

namespace tutti::detail {

/// The array of a .npy file that begins at `offset` of a larger one.
Array npy_array(const NpyHeader&, FileArrays&, std::uint64_t offset);
/// The array of a .npy file in memory, of which `data` are the elements, at `offset` of `place`. Reorders them.
Array npy_array(const NpyHeader&, const std::string& place, std::uint64_t offset, std::span<std::byte> data, Device);

}  // namespace tutti::detail
