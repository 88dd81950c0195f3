// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/file_descriptor.h>

#include <csignal>
#include <vector>

namespace tutti::launch {

/// Signals to the launcher as something that its loop reads, while this object lives: SIGCHLD, those that ask for the
/// end, SIGUSR1, SIGUSR2 and SIGTSTP. Those that whoever started the launcher ignores (nohup, a shell's background)
/// stay ignored, apart from SIGCHLD. SIGPIPE and SIGXFSZ are ignored: writes fail instead. One at a time, in a process
/// without other threads.
class SignalMask {
 public:
  SignalMask();  ///< throws LaunchError
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  int descriptor() const noexcept { return descriptor_.number(); }  ///< readable when there are signals
  std::vector<int> take();                                          ///< those that have come, without waiting
  /// Undoes all of it, in a child before it becomes another program. SIGPIPE and SIGCHLD get their defaults.
  void undo_in_child() const noexcept;

 private:
  sigset_t former_{};
  struct sigaction former_pipe_ {};
  struct sigaction former_child_ {};
  struct sigaction former_file_size_ {};
  FileDescriptor descriptor_;
};

bool asks_for_end(int signal) noexcept;  ///< SIGINT, SIGTERM, SIGHUP, SIGQUIT

}  // namespace tutti::launch
