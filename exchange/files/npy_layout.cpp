// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/npy_layout.h>

#include <algorithm>

namespace tutti::detail {
namespace {

bool must_swap(const NpyHeader& header) { return header.is_big_endian && size_of(header.dtype) > 1; }

/// Row-major: the axes as they lie in memory.
Shape stored_shape(const NpyHeader& header) {
  Shape shape = header.shape;
  if (header.is_fortran_order) std::reverse(shape.begin(), shape.end());
  return shape;
}

Array in_order(const NpyHeader& header, const Array& stored) {
  if (!header.is_fortran_order) return stored;
  Dims axes(stored.rank(), 0);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = static_cast<std::int64_t>(axes.size() - 1 - axis);
  return stored.permute(std::span<const std::int64_t>(axes.begin(), axes.size()));
}

}  // namespace

Array npy_array(const NpyHeader& header, FileArrays& from, std::uint64_t offset) {
  const std::uint64_t data = offset + header.header_bytes;
  if (!must_swap(header)) return in_order(header, from.array(data, header.dtype, stored_shape(header)));
  std::vector<std::byte> bytes(header.data_bytes);
  from.file().read_at(data, bytes.data(), bytes.size());
  return npy_array(header, from.path(), data, bytes, from.device());
}

Array npy_array(const NpyHeader& header, const std::string& place, std::uint64_t offset, std::span<std::byte> data,
                Device device) {
  if (must_swap(header))
    for (auto element = data.begin(); element != data.end();) {
      const auto next = element + static_cast<std::ptrdiff_t>(size_of(header.dtype));
      std::reverse(element, next);
      element = next;
    }
  return in_order(header, array_of_bytes(place, offset, data, header.dtype, stored_shape(header), device));
}

}  // namespace tutti::detail
