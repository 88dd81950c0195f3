// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// Reads a text file line by line, uncompressing gzip on the way. Throws DataError, with path and line, for a file that
/// cannot be opened or read, a damaged or truncated gzip stream, and a line longer than kMaxLine.
class GzipLines {
 public:
  static constexpr std::size_t kMaxLine = 1U << 16U;

  explicit GzipLines(std::string path);
  ~GzipLines();
  GzipLines(const GzipLines&) = delete;
  GzipLines& operator=(const GzipLines&) = delete;

  /// The next line without its end ("\n" or "\r\n"), valid until the next call; false at the end of the file.
  bool next(std::string_view& line);
  std::int64_t line_number() const noexcept { return line_number_; }  ///< of the last line, from 1
  const std::string& path() const noexcept { return path_; }

 private:
  struct File;

  bool fill();  // reads the next block; false at the end of the file
  void finish();

  std::string path_;
  std::unique_ptr<File> file_;
  std::string line_;
  std::int64_t line_number_ = 0;
};

}  // namespace tutti
