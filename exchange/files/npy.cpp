// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/npy.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/files/npy_header.h>
#include <tutti/exchange/files/npy_layout.h>

#include <algorithm>

namespace tutti {

Array read_npy(const std::string& path, const NpyOptions& options) {
  FileArrays from(path, options.device, options.map);
  std::vector<std::byte> start(std::min<std::uint64_t>(from.file_bytes(), detail::kMaxNpyHeader));
  from.file().read_at(0, start.data(), start.size());
  const detail::NpyHeader header = detail::parse_npy_header(path, 0, start, from.file_bytes());
  return detail::npy_array(header, from, 0);
}

void write_npy(const std::string& path, const Array& array) {
  checks::require_defined("write_npy", array);
  const std::string header = detail::npy_header_text(array.dtype(), array.shape());
  const std::vector<std::byte> bytes = host_bytes(array);
  AtomicFile target(path);
  target.file().write(header.data(), header.size());
  target.file().write(bytes.data(), bytes.size());
  target.commit();
}

}  // namespace tutti
