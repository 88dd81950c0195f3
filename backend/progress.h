// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

struct ProgressOptions {
  using Clock = std::chrono::steady_clock;

  std::string label = {};  ///< e.g. "epoch 3/10"
  /// File, not owned. Default: the log sink (backend/log.h) that there is when Progress is made, else standard error.
  std::FILE* output = nullptr;
  std::string unit = "examples";                ///< name of what is counted a second
  std::string step = "step";                    ///< name of what a run is made of
  std::optional<bool> terminal = std::nullopt;  ///< draw over; default: see Progress
  std::int64_t first_step = 0;                  ///< steps of a resumed run done before, which took no time here
  std::optional<int> width =
      std::nullopt;  ///< columns; default: the environment's COLUMNS, else the terminal's, else 80
  /// Time at first in which nothing is shown; a run that ends within it shows nothing at all.
  std::chrono::milliseconds quiet{0};
  std::chrono::milliseconds terminal_interval{100};
  std::chrono::milliseconds line_interval{10'000};     ///< time between lines, at first
  std::chrono::milliseconds widest_interval{600'000};  ///< time between lines, at last
  std::function<Clock::time_point()> now = &Clock::now;
};

/// State of a run, to be shown.
struct ProgressStatus {
  std::int64_t step = 0;                          ///< steps done
  std::int64_t examples = 0;                      ///< examples done since the bar was made
  std::optional<double> loss = std::nullopt;      ///< mean so far
  std::optional<double> accuracy = std::nullopt;  ///< share in [0, 1]
  /// The accuracy on other data, measured now and then: in [0, 1].
  std::optional<double> validation = std::nullopt;
};

/// Shows how far a run is, of a length that is known or (0 steps) is not: on a terminal one line that is drawn over;
/// elsewhere (a pipe, a file, a terminal that is "dumb" by TERM or has none, anything under continuous integration,
/// which sets CI and keeps all that is written) plain lines without control characters, and the last. These come at
/// `line_interval`, later when the run took a twentieth longer, so that a log of days stays short. No colours, so there
/// is nothing for NO_COLOR to switch off. A log sink gets these lines, too, without their ends. Never throws for a
/// failed output. Used by one thread at a time.
class Progress {
 public:
  explicit Progress(std::int64_t total_steps, ProgressOptions = {});  ///< 0: not known
  ~Progress();                                                        ///< ends the line that is being drawn over
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin();                        ///< shows on a terminal that it has begun, before the first step is done
  void update(const ProgressStatus&);  ///< shows it if enough time has passed; always if it is the last step
  void print(std::string_view line);   ///< a line of its own, above the one that is drawn over
  void relabel(std::string label);     ///< changes the label of what is shown next
  void hide();                         ///< erases the line that is being drawn over, until the next update
  void finish();                       ///< shows the last status if it is not shown yet, and ends the line

 private:
  std::string text(bool brief) const;  // "step 12/43  loss 0.3121 ..."
  std::string bar() const;
  std::chrono::nanoseconds interval(ProgressOptions::Clock::time_point now) const;
  void show();
  void end_line() noexcept;

  bool is_quiet() const { return options_.now() - started_ < options_.quiet; }
  bool is_last(const ProgressStatus& status) const { return total_ > 0 && status.step >= total_; }

  std::int64_t total_;
  ProgressOptions options_;
  bool terminal_;
  ProgressOptions::Clock::time_point started_;
  std::optional<ProgressOptions::Clock::time_point> shown_;
  ProgressStatus status_;
  bool pending_ = false;    // status_ is newer than what is shown
  bool line_open_ = false;  // the cursor stands at the end of the drawn line, on a terminal
};

}  // namespace tutti
