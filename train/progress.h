// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

namespace tutti {

struct ProgressOptions {
  using Clock = std::chrono::steady_clock;

  std::string label = {};                       ///< e.g. "epoch 3/10"
  std::FILE* output = stderr;                   ///< not owned
  std::optional<bool> terminal = std::nullopt;  ///< default: whether the output is one
  std::optional<int> width =
      std::nullopt;  ///< columns; default: the environment's COLUMNS, else the terminal's, else 80
  std::chrono::milliseconds terminal_interval{50};
  std::chrono::milliseconds line_interval{1000};
  std::function<Clock::time_point()> now = &Clock::now;
};

/// Where a run stands.
struct ProgressStatus {
  std::int64_t step = 0;                          ///< steps done
  std::int64_t examples = 0;                      ///< examples done
  std::optional<double> loss = std::nullopt;      ///< mean so far
  std::optional<double> accuracy = std::nullopt;  ///< in [0, 1]
};

/// Shows how far a run of known length is: on a terminal one line that is drawn over, elsewhere (a pipe, a file) plain
/// lines without control characters, one per `line_interval` and the last. Never throws for a failed output.
/// Used by one thread at a time.
class Progress {
 public:
  explicit Progress(std::int64_t total_steps, ProgressOptions = {});
  ~Progress();  ///< ends the line that is being drawn over
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressStatus&);  ///< shows it if enough time has passed; always if it is the last step
  void finish();                       ///< shows the last status if it is not shown yet, and ends the line

 private:
  std::string text(const ProgressStatus&) const;  // "step 12/43  loss 0.3121 ..."
  std::string bar(const std::string& text) const;
  void show();
  void end_line() noexcept;

  std::int64_t total_;
  ProgressOptions options_;
  bool terminal_;
  ProgressOptions::Clock::time_point started_;
  std::optional<ProgressOptions::Clock::time_point> shown_;
  ProgressStatus status_;
  bool pending_ = false;    // status_ is newer than what is shown
  bool line_open_ = false;  // on a terminal: the cursor stands at the end of the drawn line
};

}  // namespace tutti
