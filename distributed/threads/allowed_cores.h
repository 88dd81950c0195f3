// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <bitset>
#include <cstddef>

namespace tutti {

/// Processors of a host, by number.
using Cores = std::bitset<CPU_SETSIZE>;

/// Those on which this process may run: launchers may have bound it to some. None where that is not known.
inline Cores allowed_cores() {
  Cores cores;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &allowed);
  return cores;
}

}  // namespace tutti
