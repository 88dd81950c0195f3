// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti::launch {

/// How a process ended.
struct Ending {
  int number = 0;          ///< its status, or the signal that killed it
  bool by_signal = false;  ///< tells what `number` is

  static Ending of(int wait_status);  ///< reads what waitpid gives for a process that is gone

  bool success() const noexcept { return !by_signal && number == 0; }
  /// True if it was killed by that signal, or says with its status that it ended for it, as shells have it.
  bool is_for(int signal) const noexcept;
  int status() const noexcept;  ///< exit status as shells have it: 128 and the signal
  std::string text() const;     ///< "was killed by signal 9 (Killed)", "ended with status 3"
};

std::string signal_text(int signal);  ///< "signal 2 (Interrupt)"

}  // namespace tutti::launch
