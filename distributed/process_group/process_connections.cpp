// SPDX-License-Identifier: Apache-2.0
// Compiled for each way of connecting processes, into a library of its own of which a program is linked with one:
// TUTTI_PROCESSES_LINKED, with the program; TUTTI_PROCESSES_PLUGIN, libtutti_processes.so, loaded here; neither: not at
// all.
#include <tutti/distributed/process_group/process_connections.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/process_group/process_facts.h>
#if defined(TUTTI_PROCESSES_LINKED)
#include <tutti/distributed/process_group/job_processes.h>
#elif defined(TUTTI_PROCESSES_PLUGIN)
#include <tutti/backend/process/plugin.h>
#include <tutti/distributed/process_group/process_plugin.h>
#endif

namespace tutti {

#if defined(TUTTI_PROCESSES_LINKED)

std::unique_ptr<ProcessConnections> connect_processes(const LaunchPlace& place, const ProcessOptions& options) {
  return std::make_unique<JobProcesses>(place, options);
}

ProcessFacts process_facts() { return describe_processes(); }

#elif defined(TUTTI_PROCESSES_PLUGIN)

namespace {

Plugin& plugin() {
  static Plugin& plugin = *new Plugin("libtutti_processes.so");  // its threads may run as late as the process ends
  return plugin;
}

}  // namespace

std::unique_ptr<ProcessConnections> connect_processes(const LaunchPlace& place, const ProcessOptions& options) {
  void* const entry = plugin().function(kProcessesEntry);
  if (entry == nullptr)
    raise<SyncError>("[sync] {} started {} processes, which nothing connects: {}", place.launcher, place.size,
                     plugin().trouble());
  return std::unique_ptr<ProcessConnections>(reinterpret_cast<ProcessesEntry>(entry)(place, options));
}

ProcessFacts process_facts() {
  void* const entry = plugin().function(kProcessFactsEntry);
  if (entry == nullptr) return {.trouble = plugin().trouble(), .libraries = {}};
  return *std::unique_ptr<ProcessFacts>(reinterpret_cast<ProcessFactsEntry>(entry)());
}

#else

std::unique_ptr<ProcessConnections> connect_processes(const LaunchPlace& place, const ProcessOptions& options) {
  if (options.engine == ProcessEngine::mpi)
    raise<SyncError>("[sync] ProcessEngine::mpi: this library was built without what connects processes (-Dprocesses)");
  raise<SyncError>(
      "[sync] {} started {} processes, but this library was built without libzmq and libsodium (-Dprocesses), which "
      "connect them",
      place.launcher, place.size);
}

ProcessFacts process_facts() {
  return {.trouble = "this library was built without libzmq and libsodium (Meson option processes)", .libraries = {}};
}

#endif

}  // namespace tutti
