// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/frame_line.h>

#include <chrono>
#include <span>
#include <string_view>

namespace tutti {

/// Waiting for lines to go on, as what carries them allows. One thread at a time waits: whoever serves the lines.
class LineWatch {
 public:
  /// A line, and what it is watched for.
  struct Watched {
    FrameLine* line;
    bool reads;              ///< it waits for what comes
    bool writes;             ///< it waits for room for what is queued
    bool can_read = false;   ///< set by `wait`
    bool can_write = false;  ///< set by `wait`
  };

  LineWatch() = default;
  virtual ~LineWatch() = default;
  LineWatch(const LineWatch&) = delete;
  LineWatch& operator=(const LineWatch&) = delete;

  /// True if somebody has woken it since it last said so, as far as that can be told for less than a wait.
  virtual bool take_wake() noexcept { return false; }
  /// Blocks until one of the lines can go on, somebody wakes it, or for that long (below 0: for ever). True: somebody
  /// has woken it since it last said so.
  virtual bool wait(std::span<Watched>, std::chrono::milliseconds most) = 0;
  /// Thread-safe; whoever has changed what is watched for calls it.
  virtual void wake() noexcept = 0;
  /// True if lines go on only while somebody looks at them: who needs them then does better to look than to sleep.
  virtual bool polls() const noexcept = 0;
  /// Called when lines that were cut do not let go of memory: returns only if that does not matter.
  virtual void give_up(std::string_view reason) noexcept = 0;
};

}  // namespace tutti
