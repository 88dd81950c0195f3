// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/files/file_descriptor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::detail {

/// A file inside a zip archive.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0;  ///< offset of its local header
  std::uint64_t data = 0;    ///< offset of its (packed) bytes
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool is_deflated = false;
};

/// The directory of a zip archive, also of more than 4 GiB (zip64). Throws DataError, with path and offset, unless all
/// of it holds together: sizes within the file and possible for the packing, members that do not overlap, and names
/// that are UTF-8 and unique. Nothing is unpacked.
std::vector<ZipMember> read_zip_directory(FileDescriptor& file, const std::string& path, std::uint64_t file_bytes);

/// A deflated member's bytes, checked against its CRC-32.
std::vector<std::byte> inflate_zip_member(FileDescriptor& file, const std::string& path, const ZipMember&);
/// Checks a stored member, whose bytes lie in the file as they are, against its CRC-32.
void check_stored_zip_member(FileDescriptor& file, const std::string& path, const ZipMember&);

/// Writes an archive, member by member.
class ZipWriter {
 public:
  explicit ZipWriter(FileDescriptor& to) : to_(to) {}

  /// Stored members begin at a multiple of 64, so that they can be mapped.
  void add(const std::string& name, std::span<const std::byte> bytes, bool deflate);
  void finish();  ///< writes the directory

 private:
  FileDescriptor& to_;
  std::vector<ZipMember> members_;
};

}  // namespace tutti::detail
