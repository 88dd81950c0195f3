// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {

/// Text as it stands between quotes in JSON; control characters are left out.
std::string escaped(std::string_view);

/// Events in Chrome's trace event format, a line each, with commas between them: of one process, on tracks with
/// numbers. Times are those of a steady clock, of which `origin` is 0 in the trace.
class TraceLines {
 public:
  TraceLines(int process, std::chrono::nanoseconds origin) : process_(process), origin_(origin) {}

  void name_process(const std::string& name);
  void name_track(std::size_t track, const std::string& name);
  /// `arguments`: members of a JSON object, which a viewer shows beside it.
  void span(std::size_t track, const std::string& name, std::chrono::nanoseconds begin, std::chrono::nanoseconds end,
            const std::string& arguments = {});
  void instant(std::size_t track, const std::string& name, std::chrono::nanoseconds at);
  std::string take() { return std::move(text_); }

 private:
  double microseconds(std::chrono::nanoseconds time) const;
  void line(const std::string& event);

  int process_;
  std::chrono::nanoseconds origin_;
  std::string text_;
};

/// Writes a trace of these lines. Throws DataError naming the path if it cannot be written.
void write_trace(const std::string& events, const std::string& path);

}  // namespace tutti
