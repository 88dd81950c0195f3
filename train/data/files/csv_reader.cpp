// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/raise.h>
#include <tutti/train/data/csv.h>

#include <algorithm>

namespace tutti {

CsvReader::CsvReader(std::string path, CsvOptions options)
    : lines_(std::move(path), options.most_unpacked_bytes > 0 ? options.most_unpacked_bytes : GzipFile::kUnlimited),
      delimiter_(options.delimiter),
      width_(options.width) {
  if (delimiter_ == '"' || delimiter_ == '\n' || delimiter_ == '\r') raise("[csv] this delimiter cannot be told apart");
  if (!options.header) return;
  if (!read_record()) raise<DataError>("[csv] {} lacks the line that names the columns", lines_.path());
  for (std::size_t column = 0; column < width_; ++column) names_.emplace_back(field(column));
}

bool CsvReader::next() { return read_record(); }

std::string_view CsvReader::field(std::size_t column) const {
  if (column >= ends_.size()) raise("[csv] field {} of {} asked for", column, ends_.size());
  const std::size_t begin = column == 0 ? 0 : ends_[column - 1];
  return std::string_view(text_).substr(begin, ends_[column] - begin);
}

bool CsvReader::read_record() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view line;
  if (!lines_.next(line)) return false;
  line_ = lines_.line_number();
  if (line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  text_.clear();
  ends_.clear();
  read_fields(line);
  if (width_ == 0) width_ = ends_.size();
  if (ends_.size() != width_)
    raise<DataError>("[csv] {}, line {}: {} columns, expected {}", path(), line_, ends_.size(), width_);
  return true;
}

void CsvReader::read_fields(std::string_view line) {
  for (bool more = true; more;) {
    if (line.starts_with('"')) {
      line = read_quoted(line.substr(1));
      if (!line.empty() && line.front() != delimiter_)
        raise<DataError>("[csv] {}, line {}, column {}: text after a closing quote", path(), lines_.line_number(),
                         ends_.size() + 1);
    } else {
      const std::size_t length = std::min(line.find(delimiter_), line.size());
      text_.append(line, 0, length);
      line.remove_prefix(length);
    }
    ends_.push_back(text_.size());
    more = !line.empty();
    if (more) line.remove_prefix(1);
  }
}

/// Reads up to the closing quote, over line ends if need be; gives what follows it.
std::string_view CsvReader::read_quoted(std::string_view line) {
  for (;;) {
    const std::size_t quote = line.find('"');
    if (text_.size() + line.size() > kMaxRecord)
      raise<DataError>("[csv] {}, line {}: longer than {} characters", path(), line_, kMaxRecord);
    text_.append(line, 0, quote);
    if (quote == std::string_view::npos) {
      text_ += '\n';
      if (!lines_.next(line))
        raise<DataError>("[csv] {}, line {}, column {}: the quote is not closed", path(), line_, ends_.size() + 1);
      continue;
    }
    line.remove_prefix(quote + 1);
    if (!line.starts_with('"')) return line;
    text_ += '"';
    line.remove_prefix(1);
  }
}

}  // namespace tutti
