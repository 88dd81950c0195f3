// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/writers/event_rows.h>
#include <tutti/train/reporting/writers/event_storage.h>
#include <tutti/train/reporting/writers/line_file.h>

#include <string>
#include <vector>

namespace tutti {

/// One JSON object a line for each iteration, with every value put since the last `write`, as it was put:
/// {"iteration":12,"total_loss":0.31,"lr":0.001}. A value put for an iteration whose line is written gets another line
/// of that iteration. NaN and infinities are null. All is with the operating system when `write` returns.
///
/// When a run is resumed with Mode::append, or goes back, the lines of iterations that come again are removed, and a
/// line that a killed run left half written; so no value is there twice. A terminal, a pipe or a device keeps them.
/// Throws DataError naming the path.
class JsonLinesWriter : public EventWriter {
 public:
  explicit JsonLinesWriter(std::string path, LineFile::Mode mode = LineFile::Mode::replace)
      : file_(std::move(path), mode) {}

  void write(const EventStorage&) override;
  void close() override { file_.close(); }

 private:
  void drop_from(std::int64_t iteration);
  const std::string& key(const EventStorage&, std::size_t series);

  LineFile file_;
  EventRows rows_;
  std::vector<std::string> keys_;  // JSON text of each series' key, as "name":
  std::string lines_;
};

}  // namespace tutti
