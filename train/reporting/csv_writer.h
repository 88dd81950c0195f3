// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/writers/event_rows.h>
#include <tutti/train/reporting/writers/event_storage.h>
#include <tutti/train/reporting/writers/line_file.h>

#include <string>
#include <vector>

namespace tutti {

/// A table: "iteration" and a column for each name, in the order of their first values; a row for each iteration with
/// the values put since the last `write`, as they were put, other cells empty. A name that appears later gets a column
/// at the end: the file is then replaced by one whose header and rows have it (RFC 4180; what reads the file finds rows
/// of equal length at any time). A value put for an iteration whose row is written gets another row. Infinities and NaN
/// are inf, -inf and nan. All is with the operating system when `write` returns.
///
/// When a run is resumed with Mode::append, or goes back, the rows of iterations that come again are removed; columns
/// stay. Throws DataError naming the path, also for a file to append to that has no such header, and for what is no
/// regular file.
class CsvWriter : public EventWriter {
 public:
  explicit CsvWriter(std::string path, LineFile::Mode = LineFile::Mode::replace);

  void write(const EventStorage&) override;
  void close() override { file_.close(); }

 private:
  void drop_from(std::int64_t iteration);
  void add_columns(const EventStorage&, std::span<const EventRows::Value>);
  void append_row(std::span<const EventRows::Value>);

  LineFile file_;
  EventRows rows_;
  std::vector<std::string> columns_;                   // names behind "iteration"
  std::vector<std::optional<std::size_t>> column_of_;  // place of the column, by series
  std::vector<std::optional<double>> cells_;
  std::string lines_;
};

}  // namespace tutti
