// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// A text file that grows by whole lines. Each write reaches the operating system before it returns, so that a run that
/// is killed loses nothing. One object, of all processes, at a time: it is locked while it is open. Errors are
/// DataError naming the path. Used by one thread at a time.
class LineFile {
 public:
  enum class Mode : std::uint8_t { replace, append };

  LineFile(std::string path, Mode);
  void write(std::string_view lines);  ///< end with '\n'. After an error nothing is written any more

  /// Replaces the file, in one step, by what `edit` makes of each whole line (without its '\n'); nothing drops it. A
  /// last line without '\n', which a killed process left, is dropped. Does nothing unless the file is a regular one. It
  /// is written beside it, as `<path>.new`, which is no name for other files. DataError if the path leads elsewhere by
  /// now; after an error nothing is written any more.
  void rewrite(const std::function<std::optional<std::string>(std::string_view)>& edit);

  const std::string& path() const noexcept { return path_; }
  bool regular() const noexcept { return regular_; }  ///< no terminal, pipe or device, which keep what was written
  void close() { file_.reset(); }
  bool is_open() const noexcept { return file_ != nullptr; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;

  static File open(const std::string& path, Mode, const std::string& known_as);  ///< `known_as`: the user's path
  static void append(std::FILE*, const std::string& path, std::string_view text);
  static void flush(std::FILE*, const std::string& path);
  void begin(const char* what);  ///< a change, which has failed until it is finished

  std::string path_;
  File file_;
  bool regular_;
  bool empty_;           // nothing to rewrite
  bool failed_ = false;  // lines are missing, or half written
};

}  // namespace tutti
