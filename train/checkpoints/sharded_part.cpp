// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/sharded_part.h>

#include <tutti/train/device_threads.h>

#include <utility>

namespace tutti {

PartState part_state(const std::vector<ShardedOptimizer*>& devices) {
  PartState first;
  on_every_device(devices.size(), [&](std::size_t d) {
    const Optimizer::State gathered = devices[d]->state();
    if (d == 0) first = part_state(gathered);
  });
  return first;
}

Install prepare_part(const std::vector<ShardedOptimizer*>& devices, const PartState& part) {
  Optimizer::State state = optimizer_state(part);
  for (const ShardedOptimizer* const device : devices) device->check_state(state);
  return [devices, state = std::move(state)] {
    for (ShardedOptimizer* const device : devices) device->load_state(state);
  };
}

}  // namespace tutti
