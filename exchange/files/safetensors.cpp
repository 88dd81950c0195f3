// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/safetensors.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/files/safetensors_header.h>

#include <algorithm>

namespace tutti {

TensorFile read_safetensors(const std::string& path, const SafetensorsOptions& options) {
  FileArrays from(path, options.device, options.map);
  const std::string text = detail::read_header_text(from.file(), path, from.file_bytes());
  detail::SafetensorsHeader header = detail::parse_header(path, text);
  const std::uint64_t data = from.file().offset();
  detail::check_size(header, path, data, from.file_bytes());

  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (auto& entry : header.entries) {
    if (entry.dtype) {
      file.arrays.emplace_back(std::move(entry.name), from.array(data + entry.begin, *entry.dtype, entry.shape));
    } else if (!options.skip_unknown_types) {
      raise<DataError>("[safetensors] {}: \"{}\" at offset {} is of unknown type \"{}\"", path, entry.name,
                       data + entry.begin, entry.type);
    } else if (options.skipped != nullptr) {
      options.skipped->push_back(std::move(entry.name));
    }
  }
  return file;
}

void write_safetensors(const std::string& path, const TensorFile& given, const SafetensorsWriting& writing) {
  TensorFile file = given;
  // Widest elements first: the header's length is a multiple of eight, so that every array lies aligned in the file.
  std::stable_sort(file.arrays.begin(), file.arrays.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  const std::string header = detail::to_text(path, detail::header_of(path, file));
  const std::uint64_t length = header.size();
  AtomicFile target(path);
  target.file().write(&length, sizeof length);
  target.file().write(header.data(), header.size());
  for (const auto& [name, array] : file.arrays) {
    const std::vector<std::byte> bytes = host_bytes(array);
    target.file().write(bytes.data(), bytes.size());
    if (writing.written) writing.written(array);
  }
  target.commit();
}

}  // namespace tutti
