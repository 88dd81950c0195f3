// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/train/checkpoints/part_state.h>

#include <vector>

namespace tutti {

/// An optimizer whose state is spread over devices, all devices' parts of this process: in the format of an unsharded
/// one, so that any number of devices loads it. `part_state` is a collective: it runs `state` on a thread for each
/// device, while those that drive them wait; all processes call it.
PartState part_state(const std::vector<ShardedOptimizer*>&);
Install prepare_part(const std::vector<ShardedOptimizer*>&, const PartState&);

}  // namespace tutti
