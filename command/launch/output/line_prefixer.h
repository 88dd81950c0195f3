// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::launch {

/// Cuts what a process writes into lines, each behind a prefix. Knows no files: it is fed bytes as they come, and
/// appends whole lines to where they shall go.
class LinePrefixer {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 10;  ///< bytes, without prefix and newline

  /// `longest`: a longer line is passed on in pieces of that many bytes, each a line with the prefix.
  explicit LinePrefixer(std::string prefix, std::size_t longest = kLongestLine)
      : prefix_(std::move(prefix)), longest_(longest) {}

  void take(std::string_view bytes, std::string& lines);
  /// Passes on a last line without a newline, completed.
  void end(std::string& lines);

 private:
  void append_line(std::string_view rest, std::string& lines);

  std::string prefix_;
  std::size_t longest_;
  std::string begun_;  // begin of the line whose end has not come; shorter than longest_
  bool cut_ = false;   // the line's first part has been passed on: nothing more of it makes no further line
};

}  // namespace tutti::launch
