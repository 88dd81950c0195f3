// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/file_descriptor.h>
#include <tutti/command/launch/signal_mask.h>

#include <sys/types.h>

#include <string>
#include <vector>

namespace tutti::launch {

/// A program that has been started in a process group of its own: its number is that of the process.
struct ChildProcess {
  pid_t pid = -1;
  FileDescriptor output;  ///< end of a pipe that reads what it writes to its standard output, without waiting
  FileDescriptor error;   ///< the same of its standard error
};

/// Starts a program, found by PATH as shells do, with nothing on its standard input, and returns when it runs. It is
/// killed when the calling thread ends, however that happens. Throws LaunchError naming the program, with the statuses
/// 127 (not found) and 126 that shells have, or kCannotLaunch; then no process is left.
/// `environment`: entries "NAME=value". To be called while the process has one thread.
ChildProcess start_child(const std::vector<std::string>& program, const std::vector<std::string>& environment,
                         const SignalMask&);

}  // namespace tutti::launch
