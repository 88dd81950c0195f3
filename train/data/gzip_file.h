// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct gzFile_s;

namespace tutti {

/// The contents of a file, plain or compressed with gzip, from begin to end. Throws DataError, with path and offset in
/// the contents, for a file that cannot be opened or read, and a damaged or truncated gzip stream.
class GzipFile {
 public:
  explicit GzipFile(std::string path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  /// Reads so many bytes, or all that are left if they are fewer; gives how many.
  std::size_t read(void* to, std::size_t bytes);
  std::uint64_t offset() const noexcept { return offset_; }  ///< in the contents
  const std::string& path() const noexcept { return path_; }

 private:
  void finish();

  std::string path_;
  gzFile_s* handle_ = nullptr;  // none: the end was read
  std::uint64_t offset_ = 0;
};

/// All contents of a file, plain or compressed with gzip. Throws DataError.
std::string read_text(const std::string& path);

}  // namespace tutti
