// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/csv_writer.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace tutti {
namespace {

constexpr std::string_view kFirstColumn = "iteration";

std::string cell(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// The cells of a line; a name holds no line ends.
std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += line[i];
  }
  return cells;
}

std::string header(const std::vector<std::string>& columns) {
  std::string line(kFirstColumn);
  for (const std::string& name : columns) line += "," + cell(name);
  return line;
}

}  // namespace

CsvWriter::CsvWriter(std::string path, LineFile::Mode mode) : file_(std::move(path), mode) {
  if (!file_.regular())
    raise<DataError>("[CsvWriter] {} is no regular file: a column that comes later is put into all rows", file_.path());
  std::ifstream from(file_.path(), std::ios::binary);
  std::string line;
  if (!std::getline(from, line) || from.eof()) {  // none, or one that a killed process left half written
    file_.rewrite([](std::string_view) { return std::nullopt; });
    file_.write(header({}) + "\n");
    return;
  }
  columns_ = split(line);
  if (columns_.front() != kFirstColumn)
    raise<DataError>("[CsvWriter] {} begins with the column '{}', not '{}'", file_.path(), columns_.front(),
                     kFirstColumn);
  columns_.erase(columns_.begin());
}

void CsvWriter::write(const EventStorage& storage) {
  if (const auto start = rows_.restart(storage)) drop_from(*start);
  auto values = rows_.take(storage);
  if (values.empty()) return;
  add_columns(storage, values);
  lines_.clear();
  while (!values.empty()) append_row(EventRows::take_row(values));
  file_.write(lines_);
}

void CsvWriter::drop_from(std::int64_t start) {
  column_of_.clear();  // a storage that was loaded may have its series in another order
  std::optional<std::int64_t> last;
  file_.rewrite([&](std::string_view line) -> std::optional<std::string> {
    std::int64_t iteration = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), iteration).ec != std::errc()) return std::string(line);
    if (iteration >= start) return std::nullopt;
    last = std::max(last.value_or(iteration), iteration);
    return std::string(line);
  });
  if (last) rows_.assume_written(*last);
}

/// Finds or makes the columns of the values' series.
void CsvWriter::add_columns(const EventStorage& storage, std::span<const EventRows::Value> values) {
  const std::size_t before = columns_.size();
  column_of_.resize(storage.series().size());
  for (const auto& value : values) {
    auto& column = column_of_[value.series];
    if (column) continue;
    const std::string& name = storage.series()[value.series].name;
    column = static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
    if (*column == columns_.size()) columns_.push_back(name);
  }
  if (columns_.size() == before) return;
  const std::string empty_cells(columns_.size() - before, ',');
  bool first = true;
  file_.rewrite([&](std::string_view line) {
    const bool is_header = std::exchange(first, false);
    return std::optional(is_header ? header(columns_) : std::string(line) + empty_cells);
  });
}

void CsvWriter::append_row(std::span<const EventRows::Value> row) {
  cells_.assign(columns_.size(), std::nullopt);
  for (const auto& value : row) cells_[column_of_[value.series].value()] = value.value;
  const auto out = std::back_inserter(lines_);
  fmt::format_to(out, "{}", row.front().iteration);
  for (const auto& value : cells_) {
    lines_ += ',';
    if (value) fmt::format_to(out, "{}", *value);
  }
  lines_ += '\n';
}

}  // namespace tutti
