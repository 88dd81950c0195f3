// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/exchange/files/file_descriptor.h>

#include <memory>
#include <span>
#include <string>

namespace tutti {

/// Arrays whose elements lie in a file, row-major and little-endian: on a CPU device views of one private mapping,
/// where they are aligned, else copies.
class FileArrays {
 public:
  FileArrays(const std::string& path, Device, bool map);

  const std::string& path() const noexcept { return path_; }
  Device device() const noexcept { return device_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  FileDescriptor& file() noexcept { return file_; }

  /// The array whose first element is at `offset`. The caller has checked that the file is long enough. Throws
  /// DataError for booleans other than 0 and 1.
  Array array(std::uint64_t offset, DType, const Shape&);

 private:
  std::byte* mapped(std::uint64_t offset);

  std::string path_;
  Device device_;
  bool map_;
  FileDescriptor file_;
  std::uint64_t file_bytes_;
  std::shared_ptr<std::byte> mapping_;
};

/// The array of elements that were read from `offset` of a file. Throws DataError as above.
Array array_of_bytes(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes, DType,
                     const Shape&, Device);

/// An array's elements in host memory, row-major. Waits for its device.
std::vector<std::byte> host_bytes(const Array&);

}  // namespace tutti
