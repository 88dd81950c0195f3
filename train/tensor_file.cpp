// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/tensor_file.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/train/file_descriptor.h>
#include <tutti/train/tensor_file_header.h>

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <span>

namespace tutti {
namespace {

using detail::TensorFileHeader;

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and read without conversion");

/// CRC-32 of a growing sequence of bytes.
class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    constexpr std::size_t kMost = 1U << 30U;  // zlib counts in 32 bits
    const auto* from = static_cast<const Bytef*>(data);
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t now = std::min(bytes - done, kMost);
      value_ = crc32(value_, from + done, static_cast<uInt>(now));
      done += now;
    }
  }
  std::string text() const { return fmt::format("{:08x}", value_); }

 private:
  uLong value_ = crc32(0, nullptr, 0);
};

TensorFileHeader header_of(const std::string& path, const TensorFile& file) {
  TensorFileHeader header;
  header.metadata = file.metadata;
  header.checksum = detail::kNoChecksum;
  if (file.metadata.contains(detail::kChecksumKey))
    raise<DataError>("[tensor file] {}: {} is computed, not given", path, detail::kChecksumKey);
  std::set<std::string_view> names;
  for (const auto& [name, array] : file.arrays) {
    if (!array.defined()) raise<DataError>("[tensor file] {}: \"{}\" is undefined", path, name);
    if (name == "__metadata__" || !names.insert(name).second)
      raise<DataError>("[tensor file] {}: the name \"{}\" is reserved or given twice", path, name);
    header.entries.push_back({name, array.dtype(), array.shape(), array.bytes()});
  }
  return header;
}

std::vector<std::byte> host_bytes(const Array& array) {
  std::vector<std::byte> bytes(array.bytes());
  if (!bytes.empty()) backend_for(array.device()).copy_to_host(array.contiguous(), bytes.data());
  return bytes;
}

void write_contents(FileDescriptor& to, const std::string& path, const TensorFile& file) {
  const std::string header = detail::to_text(path, header_of(path, file));
  const std::uint64_t length = header.size();
  Checksum checksum;
  const auto append = [&](const void* data, std::size_t bytes) {
    checksum.add(data, bytes);
    to.write(data, bytes);
  };
  append(&length, sizeof length);
  append(header.data(), header.size());
  for (const auto& [name, array] : file.arrays) {
    const std::vector<std::byte> bytes = host_bytes(array);
    append(bytes.data(), bytes.size());
  }
  const std::string text = checksum.text();
  to.write_at(sizeof length + detail::checksum_position(header), text.data(), text.size());
}

struct ReadHeader {
  TensorFileHeader header;
  Checksum checksum;  // of the file so far, with kNoChecksum in the checksum's place
};

ReadHeader read_header(FileDescriptor& from, const std::string& path, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  if (file_bytes < sizeof length) raise<DataError>("[tensor file] {} is truncated: {} bytes", path, file_bytes);
  from.read(&length, sizeof length);
  if (length > std::min(file_bytes - sizeof length, detail::kMaxHeaderBytes))
    raise<DataError>("[tensor file] {} is truncated or malformed: at offset 0, a header of {} bytes in a file of {}",
                     path, length, file_bytes);
  std::string text(length, '\0');
  from.read(text.data(), text.size());
  ReadHeader result{detail::parse_header(path, text), {}};
  const std::size_t position = detail::checksum_position(text);
  if (position == std::string::npos || result.header.checksum.empty())
    raise<DataError>("[tensor file] {} has no {} in its metadata", path, detail::kChecksumKey);
  text.replace(position, std::strlen(detail::kNoChecksum), detail::kNoChecksum);
  result.checksum.add(&length, sizeof length);
  result.checksum.add(text.data(), text.size());
  return result;
}

void check_size(const TensorFileHeader& header, const std::string& path, std::uint64_t offset,
                std::uint64_t file_bytes) {
  for (const TensorFileHeader::Entry& entry : header.entries) {
    if (entry.bytes > file_bytes - offset)
      raise<DataError>("[tensor file] {} is truncated: \"{}\" at offset {} needs {} bytes, the file ends at {}", path,
                       entry.name, offset, entry.bytes, file_bytes);
    offset += entry.bytes;
  }
  if (offset != file_bytes)
    raise<DataError>("[tensor file] {}: {} unexpected bytes at offset {}", path, file_bytes - offset, offset);
}

}  // namespace

void write_tensor_file(const std::string& path, const TensorFile& file) {
  AtomicFile target(path);
  write_contents(target.file(), path, file);
  target.commit();
}

TensorFile read_tensor_file(const std::string& path, Device device) {
  FileDescriptor from = FileDescriptor::open_for_reading(path);
  const std::uint64_t file_bytes = from.size();
  ReadHeader read = read_header(from, path, file_bytes);
  check_size(read.header, path, from.offset(), file_bytes);

  TensorFile file;
  file.metadata = std::move(read.header.metadata);
  for (TensorFileHeader::Entry& entry : read.header.entries) {
    std::vector<std::byte> bytes(entry.bytes);
    from.read(bytes.data(), bytes.size());
    read.checksum.add(bytes.data(), bytes.size());
    Array array = Array::empty(entry.shape, entry.dtype, device);
    if (!bytes.empty()) backend_for(device).copy_from_host(bytes.data(), array);
    file.arrays.emplace_back(std::move(entry.name), std::move(array));
  }
  if (read.checksum.text() != read.header.checksum)
    raise<DataError>("[tensor file] {} is damaged: its checksum is {}, but the header says {}", path,
                     read.checksum.text(), read.header.checksum);
  return file;
}

}  // namespace tutti
