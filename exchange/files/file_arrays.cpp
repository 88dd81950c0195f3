// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/file_arrays.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <bit>

namespace tutti {
namespace {

/// A byte other than 0 and 1 is no value of a bool.
void check_booleans(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (wrong != bytes.end())
    raise<DataError>("[file] {}: {} at offset {} is no boolean", path, static_cast<int>(*wrong),
                     offset + static_cast<std::uint64_t>(wrong - bytes.begin()));
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without conversion");

FileArrays::FileArrays(const std::string& path, Device device, bool map)
    : path_(path),
      device_(device),
      map_(map && device.kind == DeviceKind::cpu),
      file_(FileDescriptor::open_for_reading(path)),
      file_bytes_(file_.size()) {}

std::byte* FileArrays::mapped(std::uint64_t offset) {
  if (!mapping_) mapping_ = file_.map_privately(file_bytes_);
  return mapping_.get() + offset;
}

Array FileArrays::array(std::uint64_t offset, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  if (bytes > 0 && map_ && offset % size_of(dtype) == 0) {
    std::byte* data = mapped(offset);
    if (dtype == DType::boolean) check_booleans(path_, offset, {data, bytes});
    return Array::over(data, mapping_, dtype, shape, contiguous_strides(shape), device_);
  }
  const std::unique_ptr<std::byte[]> read(new std::byte[bytes]);
  if (bytes > 0) file_.read_at(offset, read.get(), bytes);
  return array_of_bytes(path_, offset, {read.get(), bytes}, dtype, shape, device_);
}

Array array_of_bytes(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes, DType dtype,
                     const Shape& shape, Device device) {
  if (dtype == DType::boolean) check_booleans(path, offset, bytes);
  Array array = Array::empty(shape, dtype, device);
  if (!bytes.empty()) backend_for(device).copy_from_host(bytes.data(), array);
  return array;
}

std::vector<std::byte> host_bytes(const Array& array) {
  std::vector<std::byte> bytes(array.bytes());
  if (!bytes.empty()) backend_for(array.device()).copy_to_host(array.contiguous(), bytes.data());
  return bytes;
}

}  // namespace tutti
