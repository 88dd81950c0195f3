// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/processes/process_link.h>

#include <chrono>
#include <memory>
#include <span>

namespace tutti {

/// This process's end of all that connects the processes of a job: the control channel, and engines between them.
class ProcessConnections {
 public:
  virtual ~ProcessConnections() = default;
  /// ProcessGroup::connect, once.
  virtual ProcessGroup::Connection connect(std::span<const Device>, std::chrono::milliseconds patience) = 0;
  virtual const char* engine() const noexcept = 0;  ///< ProcessGroup::engine
};

/// Finds the other processes, with what connects them: that is linked into the program, or a plugin, as the library
/// says that is linked (see process_connections.cpp), so that a program of one process is linked with none of it.
/// Throws what ProcessGroup::from_environment does.
std::unique_ptr<ProcessConnections> connect_processes(const LaunchPlace&, const ProcessOptions&);

}  // namespace tutti
