// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>
#include <tutti/distributed/process_group/process_facts.h>
#include <tutti/distributed/processes/connection_libraries.h>

namespace tutti {

ProcessFacts describe_processes() { return {.trouble = {}, .libraries = connection_libraries(), .mpi = mpi_library()}; }

}  // namespace tutti
