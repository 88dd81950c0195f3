// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

/// The devices of a group's processes: how many there are, and which of them one process has. They are numbered in the
/// order of the ranks.
struct WorldShare {
  int processes = 1;
  std::size_t devices = 0;  ///< devices of all processes; 0: one process, whose devices are all
  std::size_t first = 0;    ///< number of this process's first device; its others' follow
};

}  // namespace tutti
