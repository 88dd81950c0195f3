// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/writers/event_storage.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

class Progress;
class ProgressBar;

struct ConsoleWriterOptions {
  using Clock = std::chrono::steady_clock;

  std::int64_t iterations = 0;   ///< iteration at which the run ends; 0: unknown, no ETA
  std::FILE* output = nullptr;   ///< not owned; default: the log sink (backend/log.h), without one standard output
  Progress* progress = nullptr;  ///< lines go above this bar, to its output; not owned
  ProgressBar* bar = nullptr;    ///< makes room for lines, where it is drawn on the terminal of `output`; not owned
  std::vector<std::string> hidden{"memory/", "sync/"};  ///< names that begin so are left to files
  std::function<Clock::time_point()> now = &Clock::now;
};

/// A line for each `write`: the iteration and every value that is new since the last line, smoothed where its hint says
/// so, then how long the rest will take:
///   iteration 1200/5000  total_loss 0.3121  time 12.3 ms  lr 0.001  memory 123 MiB  ETA 05:12
/// "time" and "data_time" (what their names end with) are seconds, "memory" is bytes. The ETA is from the median "time"
/// of an iteration, or by the clock where there is none. Without a new value no line. Plain text everywhere. Never
/// throws for a failed output.
class ConsoleWriter : public EventWriter {
 public:
  explicit ConsoleWriter(ConsoleWriterOptions = {});
  void write(const EventStorage&) override;

 private:
  std::optional<double> seconds_left(const EventStorage&) const;
  bool is_hidden(const std::string& name) const;

  ConsoleWriterOptions options_;
  std::size_t starts_seen_ = 0;
  ConsoleWriterOptions::Clock::time_point started_;
  std::int64_t first_iteration_ = 0;
  std::vector<std::int64_t> shown_;  // last iteration shown, by series
};

}  // namespace tutti
