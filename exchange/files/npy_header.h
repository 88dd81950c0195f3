// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti::detail {

/// Header before the elements in NumPy's .npy format.
struct NpyHeader {
  DType dtype = DType::f32;
  bool is_big_endian = false;
  bool is_fortran_order = false;  ///< the first axis varies fastest
  Shape shape;
  std::uint64_t header_bytes = 0;  ///< the elements begin here
  std::uint64_t data_bytes = 0;
};

inline constexpr std::size_t kMaxNpyHeader = 1U << 20U;  ///< far more than any array of ours needs

/// Reads the header of a file of `file_bytes` bytes, of which `start` are the first: all of them, or at least
/// kMaxNpyHeader. Throws DataError with `place` (a path) and the offset, counted from `base`, for whatever is no header
/// of ours, and unless the elements fill the file to its end.
NpyHeader parse_npy_header(const std::string& place, std::uint64_t base, std::span<const std::byte> start,
                           std::uint64_t file_bytes);

/// Magic, version and header for an array in row-major order; its length is a multiple of 64.
std::string npy_header_text(DType, const Shape&);

}  // namespace tutti::detail
