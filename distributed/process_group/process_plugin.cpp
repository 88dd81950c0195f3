// SPDX-License-Identifier: Apache-2.0
// What libtutti_processes.so gives to the library that loads it.
#include <tutti/backend/process/plugin.h>
#include <tutti/distributed/process_group/job_processes.h>

// NOLINTNEXTLINE(readability-identifier-naming): as kProcessesEntry names it
extern "C" [[gnu::visibility("default")]] tutti::ProcessConnections* TUTTI_PLUGIN_FUNCTION(tutti_processes)(
    const tutti::LaunchPlace& place, const tutti::ProcessOptions& options) {
  return new tutti::JobProcesses(place, options);
}
