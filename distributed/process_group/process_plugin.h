// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/plugin.h>
#include <tutti/distributed/process_group/process_connections.h>
#include <tutti/distributed/process_group/process_facts.h>

namespace tutti {

/// Name and type of what libtutti_processes.so exports: new connections, to be deleted by who asked.
inline constexpr const char* kProcessesEntry = TUTTI_PLUGIN_FUNCTION_NAME(tutti_processes);
using ProcessesEntry = ProcessConnections* (*)(const LaunchPlace&, const ProcessOptions&);

/// The same of new ProcessFacts.
inline constexpr const char* kProcessFactsEntry = TUTTI_PLUGIN_FUNCTION_NAME(tutti_process_facts);
using ProcessFactsEntry = ProcessFacts* (*)();

}  // namespace tutti
