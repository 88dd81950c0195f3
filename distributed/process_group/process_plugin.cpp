// SPDX-License-Identifier: Apache-2.0
// What libtutti_processes.so gives to the library that loads it.
#include <tutti/backend/process/plugin.h>
#include <tutti/distributed/process_group/job_processes.h>
#include <tutti/distributed/process_group/process_facts.h>

// NOLINTBEGIN(readability-identifier-naming): as process_plugin.h names them
extern "C" [[gnu::visibility("default")]] tutti::ProcessConnections* TUTTI_PLUGIN_FUNCTION(tutti_processes)(
    const tutti::LaunchPlace& place, const tutti::ProcessOptions& options) {
  return new tutti::JobProcesses(place, options);
}

extern "C" [[gnu::visibility("default")]] tutti::ProcessFacts* TUTTI_PLUGIN_FUNCTION(tutti_process_facts)() {
  return new tutti::ProcessFacts(tutti::describe_processes());
}
// NOLINTEND(readability-identifier-naming)
