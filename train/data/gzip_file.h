// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct gzFile_s;

namespace tutti {

/// How long contents may be that are kept whole, where nothing else is said: 1 GiB or a hundred times the file,
/// whichever is more.
std::uint64_t most_unpacked_bytes(const std::string& path);

/// The contents of a file, plain or compressed with gzip, from begin to end. Throws DataError, with path and offset in
/// the contents, for a file that cannot be opened or read, a damaged or truncated gzip stream, and contents that are
/// longer than allowed.
class GzipFile {
 public:
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};  ///< no limit, for who keeps little of it at a time

  explicit GzipFile(std::string path, std::uint64_t most = 0);  ///< bytes, unpacked; 0: most_unpacked_bytes(path)
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  /// Reads so many bytes, or all that are left if they are fewer; gives how many.
  std::size_t read(void* to, std::size_t bytes);
  std::uint64_t offset() const noexcept { return offset_; }  ///< place in the contents
  const std::string& path() const noexcept { return path_; }

 private:
  void finish();

  std::string path_;
  std::uint64_t most_;
  gzFile_s* handle_ = nullptr;  // none: the end was read
  std::uint64_t offset_ = 0;
};

struct TextOptions {
  std::uint64_t most_unpacked_bytes = 0;  ///< 0: 1 GiB or a hundred times the file, whichever is more
};

/// All contents of a file, plain or compressed with gzip. Throws DataError.
std::string read_text(const std::string& path, const TextOptions& = {});

}  // namespace tutti
