// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/log.h>
#include <tutti/nn/module.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// Facts that a run is started with, by names.
struct RunDescription {
  using Facts = std::vector<std::pair<std::string, std::string>>;

  std::string program;
  Facts options = {};
  /// Devices, threads, ... A RunRecord adds, where there is no such name, the library's version, build, compiler and
  /// the level of its kernels, host, system, processor, and the variables TUTTI_* that are set, secrets without their
  /// values.
  Facts environment = {};
};

/// Record of what a run was started with, what it said, and how it ended: a file of JSON that `tutti report` shows
/// beside the metrics. The file is replaced in one step at every change; a run that is killed leaves it without an end.
/// Any thread.
class RunRecord {
 public:
  enum class Outcome { finished, interrupted, failed };

  /// Writes the file. It and the functions below throw DataError naming the path if it cannot be written.
  RunRecord(std::string path, RunDescription);
  ~RunRecord();

  /// Adds a warning, an error or a remark, with the time since the run began. The first 200 are kept, and the others
  /// counted.
  void add_message(LogLevel, std::string_view text);
  /// Names, shapes, types and, where they have gradients that are not sparse and can be read, norms of these. Waits for
  /// the device.
  void set_parameters(const NamedTensors&);
  void end(Outcome, std::string_view reason = {});

 private:
  struct Content;
  void write();

  const std::string path_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::unique_ptr<Content> content_;
};

}  // namespace tutti
