// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// How a stream of windows is read: not known before the first item; then window by window, or as one long stream.
enum class WindowUse : std::uint8_t { undecided, windowed, plain };
std::string to_string(WindowUse);

/// Position of a WindowStream.
struct WindowPosition {
  WindowUse use = WindowUse::undecided;
  std::int64_t epoch = 0;
  std::int64_t window = -1;  ///< the last one that was begun or skipped; -1: none yet
  bool inside = false;       ///< it may still have items
  std::string inner;         ///< position of the window's stream, if inside

  std::string text() const;  ///< JSON
  /// Throws DataError for a text that is none, or that names a window which is not there.
  static WindowPosition parse(const std::string&, std::int64_t windows);
};

}  // namespace tutti
