// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti {

enum class NextWindow : std::uint8_t {
  ready,  ///< `next` gives the window's items, then nothing
  skip,   ///< there is a window, but nothing to read in it: ask for the next one
  end     ///< the epoch has no more windows; again until the next epoch is started
};

/// Interface that a training loop needs of data in windows, an hour's log for one, whatever its items are.
class Windowed {
 public:
  virtual ~Windowed() = default;

  /// Leaves what is left of the window before. After a `seek` into a window it is that one, from there.
  virtual NextWindow next_window() = 0;
  /// Number of the window begun or skipped last, from 0 in each epoch; -1: none yet.
  virtual std::int64_t window() const = 0;
};

}  // namespace tutti
