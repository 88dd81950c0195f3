// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/dataset.h>
#include <tutti/train/data/files/gzip_lines.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tutti {

struct CsvOptions {
  char delimiter = ',';
  bool header = true;     ///< the first line names the columns
  std::size_t width = 0;  ///< number of fields on each line; 0: as many as on the first
  /// The header may name columns by numbers, as pandas does for arrays; else read_csv takes such a line for data.
  bool numbers_as_names = false;
  /// Most bytes that the file may have, unpacked; 0: 1 GiB or a hundred times the file, whichever is more, and any
  /// number for a CsvReader, which keeps a record at a time.
  std::uint64_t most_unpacked_bytes = 0;
};

/// Reads records of a CSV file after RFC 4180, plain or compressed with gzip: fields may stand in quotes, in which
/// delimiters, doubled quotes and line ends (each becomes "\n") are text. Throws DataError with path and line for a
/// file that cannot be read, a quote that is not closed, and records of another width.
class CsvReader {
 public:
  static constexpr std::size_t kMaxRecord = std::size_t{1} << 24U;  ///< characters

  /// Reads the header. Throws Error for a delimiter that is a quote or a line end.
  explicit CsvReader(std::string path, CsvOptions = {});

  bool next();  ///< goes to the next record; false at the end of the file
  std::size_t width() const noexcept { return width_; }
  std::string_view field(std::size_t column) const;            ///< valid until the next record
  std::int64_t line_number() const noexcept { return line_; }  ///< line where the record begins, from 1
  const std::string& path() const noexcept { return lines_.path(); }
  const std::vector<std::string>& names() const noexcept { return names_; }  ///< none without a header

 private:
  bool read_record();
  void read_fields(std::string_view line);
  std::string_view read_quoted(std::string_view line);

  GzipLines lines_;
  char delimiter_;
  std::size_t width_;
  std::int64_t line_ = 0;
  std::vector<std::string> names_;
  std::string text_;               // text of all fields, one after the other
  std::vector<std::size_t> ends_;  // end of each field in the text
};

/// Column by its name in the header, or by its number, from 0.
using CsvColumn = std::variant<int, std::string>;

/// Columns that become one array.
struct CsvSelection {
  std::vector<CsvColumn> columns{};  ///< columns in this order; none: all
  DType dtype = DType::f32;          ///< bool is 0 or 1
  std::optional<double> missing{};   ///< value of an empty field; none: an empty field is an error
};

/// The numbers of these columns: [lines, columns], on cpu:0. Spaces around a number are passed over. Throws DataError
/// with path, line and column for what is no number of that type or out of its range, and for a file without lines; and
/// where the header gives a chosen column a number as its name and no column was chosen by name: it is an example.
Array read_csv(const std::string& path, const CsvOptions& = {}, const CsvSelection& = {});

/// Inputs [n, columns], and targets [n] of one column or [n, columns] of several.
Examples read_csv_examples(const std::string& path, const CsvSelection& inputs, const CsvSelection& targets,
                           const CsvOptions& = {});

}  // namespace tutti
