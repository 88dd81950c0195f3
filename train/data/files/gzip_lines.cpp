// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/files/gzip_lines.h>

#include <tutti/backend/raise.h>

#include <cstring>

namespace tutti {

bool GzipLines::fill() {
  position_ = 0;
  length_ = file_.read(block_.data(), block_.size());
  return length_ > 0;
}

bool GzipLines::next(std::string_view& line) {
  line_.clear();
  bool ended = false;
  while (!ended) {
    if (position_ == length_ && !fill()) break;
    const char* begin = block_.data() + position_;
    const std::size_t available = length_ - position_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', available));
    const std::size_t taken = newline ? static_cast<std::size_t>(newline - begin) : available;
    if (line_.size() + taken > kMaxLine)
      raise<DataError>("[read] {}, line {}: longer than {} characters", path(), line_number_ + 1, kMaxLine);
    line_.append(begin, taken);
    position_ += taken + (newline ? 1 : 0);
    ended = newline != nullptr;
  }
  if (!ended && line_.empty()) return false;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  ++line_number_;
  line = line_;
  return true;
}

}  // namespace tutti
