// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tables/hash_table.h>
#include <tutti/backend/array.h>
#include <tutti/backend/device.h>
#include <tutti/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// A copy of what one device's replica holds, for devices that are to continue from there.
struct ReplicaState {
  std::string holder;             ///< name of the member that it was copied from
  std::uint64_t group = 0;        ///< number of the group that goes on from here
  std::vector<Array> parameters;  ///< those without a gradient last
  std::vector<Array> buffers;
  std::vector<std::shared_ptr<const HashTable>> tables;  ///< one per hash table, in the order of the module's members
  std::vector<Optimizer::State> optimizers;  ///< one per optimizer, in the order in which they were attached
};

}  // namespace tutti
