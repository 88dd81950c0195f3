// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/gzip_lines.h>

#include <tutti/backend/error.h>

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tutti {

struct GzipLines::File {
  gzFile handle = nullptr;
  std::array<char, 1U << 14U> block;
  std::size_t position = 0;
  std::size_t length = 0;
};

GzipLines::GzipLines(std::string path) : path_(std::move(path)), file_(std::make_unique<File>()) {
  if (std::error_code ignored; std::filesystem::is_directory(path_, ignored))
    raise<DataError>("[read] {} is a folder, not a file", path_);
  errno = 0;
  file_->handle = gzopen(path_.c_str(), "rb");
  if (!file_->handle) raise<DataError>("[read] cannot open {}: {}", path_, std::strerror(errno));
}

GzipLines::~GzipLines() {
  if (file_->handle) gzclose(file_->handle);
}

bool GzipLines::fill() {
  if (!file_->handle) return false;
  errno = 0;
  const int count = gzread(file_->handle, file_->block.data(), static_cast<unsigned>(file_->block.size()));
  if (count < 0) {
    const int system_error = errno;
    int code = Z_OK;
    std::string_view reason = gzerror(file_->handle, &code);
    if (reason.starts_with(path_ + ": ")) reason.remove_prefix(path_.size() + 2);
    if (code == Z_ERRNO) reason = std::strerror(system_error);
    raise<DataError>("[read] {} is damaged after line {}: {}", path_, line_number_, reason);
  }
  file_->position = 0;
  file_->length = static_cast<std::size_t>(count);
  if (count == 0) finish();
  return count > 0;
}

void GzipLines::finish() {
  // zlib tells of a stream that ends too early only when it is closed.
  const int status = gzclose(file_->handle);
  file_->handle = nullptr;
  if (status != Z_OK) raise<DataError>("[read] {} is truncated after line {}", path_, line_number_);
}

bool GzipLines::next(std::string_view& line) {
  line_.clear();
  bool ended = false;
  while (!ended) {
    if (file_->position == file_->length && !fill()) break;
    const char* begin = file_->block.data() + file_->position;
    const std::size_t available = file_->length - file_->position;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', available));
    const std::size_t taken = newline ? static_cast<std::size_t>(newline - begin) : available;
    if (line_.size() + taken > kMaxLine)
      raise<DataError>("[read] {}, line {}: longer than {} characters", path_, line_number_ + 1, kMaxLine);
    line_.append(begin, taken);
    file_->position += taken + (newline ? 1 : 0);
    ended = newline != nullptr;
  }
  if (!ended && line_.empty()) return false;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  ++line_number_;
  line = line_;
  return true;
}

}  // namespace tutti
