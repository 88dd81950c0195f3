// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/tensor_file.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/files/safetensors_header.h>
#include <tutti/train/checkpoints/crc32.h>

#include <algorithm>
#include <span>

namespace tutti {
namespace {

using detail::SafetensorsHeader;

constexpr const char* kChecksumKey = "tutti.crc32";
constexpr std::string_view kNoChecksum = "00000000";  // stands in the header while the checksum is computed

/// Place of the checksum's digits in the header's text; npos if there is none.
std::size_t checksum_position(const std::string& text) {
  // Inside of a JSON string the quotes would be escaped: only the key itself matches.
  const std::string key = std::string("\"") + kChecksumKey + "\":\"";
  const std::size_t found = text.find(key);
  if (found == std::string::npos || found + key.size() + kNoChecksum.size() > text.size()) return std::string::npos;
  return found + key.size();
}

SafetensorsHeader header_of(const std::string& path, const TensorFile& file) {
  SafetensorsHeader header = detail::header_of(path, file);
  if (!header.metadata.emplace(kChecksumKey, kNoChecksum).second)
    raise<DataError>("[tensor file] {}: {} is computed, not given", path, kChecksumKey);
  return header;
}

std::string write_contents(FileDescriptor& to, const std::string& path, const TensorFile& file) {
  const std::string header = detail::to_text(path, header_of(path, file));
  const std::uint64_t length = header.size();
  Crc32 checksum;
  const auto append = [&](const void* data, std::size_t bytes) {
    checksum.add(data, bytes);
    to.write(data, bytes);
  };
  append(&length, sizeof length);
  append(header.data(), header.size());
  for (const auto& [name, array] : file.arrays) {
    if (array.device().kind == DeviceKind::cpu && array.is_contiguous()) {  // from where they lie
      synchronize(array.device());
      append(array.raw_data(), array.bytes());
    } else {
      const std::vector<std::byte> bytes = host_bytes(array);
      append(bytes.data(), bytes.size());
    }
  }
  const std::string text = checksum.text();
  to.write_at(sizeof length + checksum_position(header), text.data(), text.size());
  return text;
}

struct ReadHeader {
  SafetensorsHeader header;
  std::string expected;  // what the header says
  Crc32 checksum;        // of the file so far, with kNoChecksum in the checksum's place
};

ReadHeader read_header(FileDescriptor& from, const std::string& path, std::uint64_t file_bytes) {
  std::string text = detail::read_header_text(from, path, file_bytes);
  ReadHeader result{detail::parse_header(path, text), {}, {}};
  const auto found = result.header.metadata.find(kChecksumKey);
  const std::size_t position = checksum_position(text);
  if (position == std::string::npos || found == result.header.metadata.end())
    raise<DataError>("[tensor file] {} has no {} in its metadata", path, kChecksumKey);
  result.expected = found->second;
  result.header.metadata.erase(found);
  text.replace(position, kNoChecksum.size(), kNoChecksum);
  const std::uint64_t length = text.size();
  result.checksum.add(&length, sizeof length);
  result.checksum.add(text.data(), text.size());
  return result;
}

}  // namespace

std::string write_tensor_file(const std::string& path, const TensorFile& file) {
  AtomicFile target(path);
  std::string checksum = write_contents(target.file(), path, file);
  target.commit();
  return checksum;
}

TensorFile read_tensor_file(const std::string& path, Device device, std::string* checksum) {
  FileDescriptor from = FileDescriptor::open_for_reading(path);
  const std::uint64_t file_bytes = from.size();
  ReadHeader read = read_header(from, path, file_bytes);
  for (const SafetensorsHeader::Entry& entry : read.header.entries)
    if (!entry.dtype)
      raise<DataError>("[tensor file] {}: \"{}\" at offset {} is of unknown type \"{}\"", path, entry.name,
                       from.offset() + entry.begin, entry.type);
  detail::check_size(read.header, path, from.offset(), file_bytes);

  TensorFile file;
  file.metadata = std::move(read.header.metadata);
  for (SafetensorsHeader::Entry& entry : read.header.entries) {
    std::vector<std::byte> bytes(entry.bytes);
    const std::uint64_t offset = from.offset();
    from.read(bytes.data(), bytes.size());
    read.checksum.add(bytes.data(), bytes.size());
    Array array = array_of_bytes(path, offset, bytes, *entry.dtype, entry.shape, device);
    file.arrays.emplace_back(std::move(entry.name), std::move(array));
  }
  if (read.checksum.text() != read.expected)
    raise<DataError>("[tensor file] {} is damaged: its checksum is {}, but the header says {}", path,
                     read.checksum.text(), read.expected);
  if (checksum != nullptr) *checksum = read.expected;
  return file;
}

}  // namespace tutti
