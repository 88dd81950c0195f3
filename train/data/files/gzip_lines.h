// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/gzip_file.h>

#include <string_view>
#include <vector>

namespace tutti {

/// Reads a text file line by line, uncompressing gzip on the way. Throws DataError, with path and offset, for a file
/// that cannot be opened or read, a damaged or truncated gzip stream, and, with the line, for one longer than kMaxLine.
class GzipLines {
 public:
  static constexpr std::size_t kMaxLine = 1U << 20U;

  /// Most bytes that the contents may have, unpacked: any number by default, for a line is all that is kept.
  explicit GzipLines(std::string path, std::uint64_t most_unpacked_bytes = GzipFile::kUnlimited)
      : file_(std::move(path), most_unpacked_bytes) {}

  /// The next line without its end ("\n" or "\r\n"), valid until the next call; false at the end of the file.
  bool next(std::string_view& line);
  std::int64_t line_number() const noexcept { return line_number_; }  ///< number of the last line, from 1
  const std::string& path() const noexcept { return file_.path(); }

 private:
  bool fill();  // reads the next block; false at the end of the file

  GzipFile file_;
  std::vector<char> block_ = std::vector<char>(1U << 14U);
  std::size_t position_ = 0;  // place in the block
  std::size_t length_ = 0;
  std::string line_;
  std::int64_t line_number_ = 0;
};

}  // namespace tutti
