// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/file_descriptor.h>

#include <cstddef>
#include <string>

namespace tutti::launch {

/// One of the launcher's own outputs, with the lines that wait for it. Never waits itself: a slow reader lets lines
/// wait here, and once `has_room` is false their sources are not read, so that they wait too.
class OutputSink {
 public:
  /// `number`: 1 or 2, or another open file. Where it is a pipe or a terminal, it is opened once more, for a mode
  /// without waiting that those who share it do not share.
  explicit OutputSink(int number);

  std::string& lines() noexcept { return lines_; }  ///< whole lines are appended here
  bool has_room() const noexcept { return waiting() < kMostWaiting; }
  bool pending() const noexcept { return waiting() > 0; }
  int descriptor() const noexcept { return own_ ? own_.number() : number_; }
  /// Writes what it takes now: to be called when it is writable. Once it has failed, what comes is dropped.
  void flush();
  int error() const noexcept { return error_; }  ///< errno of the write that failed; 0: none

 private:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  std::size_t waiting() const noexcept { return lines_.size() - written_; }

  int number_;
  FileDescriptor own_;  // number_ once more, if it could be opened
  std::string lines_;
  std::size_t written_ = 0;  // bytes at the front of lines_
  int error_ = 0;
};

bool same_file(int lhs, int rhs);  ///< true if two descriptors lead to the same pipe, terminal or file

}  // namespace tutti::launch
