// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/processor_limits.h>
#include <tutti/bench.h>

#include <memory>
#include <optional>
#include <string>

namespace tutti::bench {

/// File of one run, in Google Benchmark's format: `tutti bench compare` reads it. It is replaced as a whole after each
/// case, so that a run which is interrupted leaves what had finished, with `complete` false.
class RunFile {
 public:
  /// Writes the file with no case yet, in a folder that is made if need be. `label` says what was measured, as a
  /// commit; may be empty. Throws DataError where the file cannot be written, or is there and no regular one.
  RunFile(std::string path, const std::string& label, const Options&, const std::optional<ProcessorLimits>&);
  ~RunFile();
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  void add(const Measurement&);
  void add_failure(const std::string& name, const std::string& message);
  void complete();

  const std::string& path() const noexcept { return path_; }

 private:
  void write() const;

  struct Content;
  std::string path_;
  std::unique_ptr<Content> content_;
};

/// Name of a file for a run of now that the folder has not: "20261127T101500Z-LABEL.json".
std::string new_file_name(const std::string& folder, const std::string& label);

}  // namespace tutti::bench
