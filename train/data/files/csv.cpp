// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/csv.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t") + 1;
  return text.substr(begin, std::max(begin, end) - begin);
}

std::size_t column_number(const CsvReader& reader, const CsvColumn& column) {
  if (const int* number = std::get_if<int>(&column)) {
    if (*number < 0 || static_cast<std::size_t>(*number) >= reader.width())
      raise<DataError>("[csv] {} has no column {}: there are {}, from 0", reader.path(), *number, reader.width());
    return static_cast<std::size_t>(*number);
  }
  const std::string& name = std::get<std::string>(column);
  const std::vector<std::string>& names = reader.names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    raise<DataError>("[csv] {} has no column \"{}\"{}", reader.path(), name, names.empty() ? ": it has no header" : "");
  if (std::find(found + 1, names.end(), name) != names.end())
    raise<DataError>("[csv] {} has several columns \"{}\": choose by number", reader.path(), name);
  return static_cast<std::size_t>(found - names.begin());
}

std::vector<std::size_t> column_numbers(const CsvReader& reader, const CsvSelection& selection) {
  std::vector<std::size_t> numbers;
  for (const CsvColumn& column : selection.columns) numbers.push_back(column_number(reader, column));
  if (selection.columns.empty())
    for (std::size_t column = 0; column < reader.width(); ++column) numbers.push_back(column);
  return numbers;
}

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

bool is_finite_number(std::string_view text) {
  text = without_plus(trimmed(text));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() && error != std::errc::invalid_argument && std::isfinite(value);
}

/// A first line that holds an example is no header. A name that was asked for and found shows that it is one.
void check_header(const CsvReader& reader, std::span<const CsvSelection> selections) {
  const auto by_name = [](const CsvColumn& column) { return std::holds_alternative<std::string>(column); };
  for (const CsvSelection& selection : selections)
    if (std::ranges::any_of(selection.columns, by_name)) return;
  for (const CsvSelection& selection : selections)
    for (const std::size_t column : column_numbers(reader, selection))
      if (is_finite_number(reader.names()[column]))
        raise<DataError>(
            "[csv] {}, line {}, column {}: the header has the number {} for a name: set header to false in CsvOptions "
            "if this line is an example, or numbers_as_names to true",
            reader.path(), reader.line_number(), column + 1, trimmed(reader.names()[column]).substr(0, 32));
}

/// Collects the chosen columns, line by line.
class Table {
 public:
  Table(const CsvReader& reader, const CsvSelection& selection)
      : columns_(column_numbers(reader, selection)), dtype_(selection.dtype) {
    if (selection.missing) missing_ = fmt::format("{}", *selection.missing);
  }

  void add_line(const CsvReader& reader) {
    visit_dtype(dtype_, [&]<class T>(std::type_identity<T>) {
      for (const std::size_t column : columns_) {
        const T value = number<T>(reader, column);
        const auto bytes = std::as_bytes(std::span(&value, 1));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
      }
    });
    ++lines_;
  }

  Array array(const std::string& path) const {
    return array_of_bytes(path, 0, bytes_, dtype_, {lines_, static_cast<std::int64_t>(columns_.size())}, cpu());
  }

 private:
  template <class T> T number(const CsvReader& reader, std::size_t column) const {
    std::string_view text = without_plus(trimmed(reader.field(column)));
    const auto fail = [&](const std::string& what) {
      raise<DataError>("[csv] {}, line {}, column {}: {}", reader.path(), reader.line_number(), column + 1, what);
    };
    if (text.empty() && missing_) text = *missing_;
    using Parsed = std::conditional_t<is_floating(dtype_of<T>),
                                      std::conditional_t<std::is_same_v<T, double>, double, float>, std::int64_t>;
    Parsed value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
      fail(fmt::format("\"{}\" is not a {}number", text.substr(0, 32), is_floating(dtype_of<T>) ? "" : "whole "));
    if (error != std::errc() || !fits<T>(value))
      fail(fmt::format("{} is out of the range of {}", text.substr(0, 32), to_string(dtype_)));
    return static_cast<T>(value);
  }

  template <class T, class Parsed> static bool fits(Parsed value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value == 0 || value == 1;
    } else if constexpr (is_floating(dtype_of<T>)) {
      return !std::isfinite(value) || std::isfinite(static_cast<double>(static_cast<ComputedIn<T>>(T(value))));
    } else {
      return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
    }
  }

  std::vector<std::size_t> columns_;
  DType dtype_;
  std::optional<std::string> missing_;
  std::vector<std::byte> bytes_;
  std::int64_t lines_ = 0;
};

std::vector<Array> read_tables(const std::string& path, CsvOptions options, std::span<const CsvSelection> selections) {
  if (options.most_unpacked_bytes == 0) options.most_unpacked_bytes = most_unpacked_bytes(path);
  CsvReader reader(path, options);
  if (options.header && !options.numbers_as_names) check_header(reader, selections);
  std::vector<Table> tables;
  while (reader.next()) {
    if (tables.empty())
      for (const CsvSelection& selection : selections) tables.emplace_back(reader, selection);
    for (Table& table : tables) table.add_line(reader);
  }
  if (tables.empty()) raise<DataError>("[csv] {} holds no examples", path);
  std::vector<Array> arrays;
  arrays.reserve(tables.size());
  for (const Table& table : tables) arrays.push_back(table.array(path));
  return arrays;
}

}  // namespace

Array read_csv(const std::string& path, const CsvOptions& options, const CsvSelection& selection) {
  return read_tables(path, options, {&selection, 1}).front();
}

Examples read_csv_examples(const std::string& path, const CsvSelection& inputs, const CsvSelection& targets,
                           const CsvOptions& options) {
  const CsvSelection both[] = {inputs, targets};
  const std::vector<Array> arrays = read_tables(path, options, both);
  return {arrays[0], arrays[1].length(1) == 1 ? arrays[1].squeeze(1) : arrays[1]};
}

}  // namespace tutti
