// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/file_descriptor.h>

#include <optional>
#include <string>
#include <string_view>

namespace tutti::launch {

/// File that gets all that one process writes, as it comes. One that cannot be written to its end does not matter to
/// the process: the file ends there, which is told once.
class RankLog {
 public:
  /// Makes the file, or empties it. Throws LaunchError naming it.
  explicit RankLog(std::string path);

  void take(std::string_view bytes);
  void close();  ///< some systems tell only here that there was no room
  /// Tells of a failure, once; none if there is none.
  std::optional<std::string> news();

 private:
  void fail(int error);

  std::string path_;
  FileDescriptor file_;  // none once it has failed or is closed
  std::optional<std::string> news_;
};

}  // namespace tutti::launch
