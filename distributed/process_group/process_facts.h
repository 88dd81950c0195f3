// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>

#include <string>
#include <vector>

namespace tutti {

/// The means that connect processes, as a ProcessGroup would find them.
struct ProcessFacts {
  std::string trouble;                ///< why there are none, and what was looked for; empty: they are there
  std::vector<ThirdParty> libraries;  ///< libraries that they are made with; none where there is trouble
  ThirdParty mpi{};                   ///< MPI, which ProcessEngine::mpi needs
};

/// Loads the plugins, and connects nothing. Throws nothing because something is missing.
ProcessFacts process_facts();

/// The same, in a library that has them.
ProcessFacts describe_processes();

}  // namespace tutti
