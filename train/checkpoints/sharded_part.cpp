// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/sharded_part.h>

#include <future>
#include <optional>
#include <utility>

namespace tutti {

PartState part_state(const std::vector<ShardedOptimizer*>& devices) {
  std::vector<std::future<Optimizer::State>> states;
  for (ShardedOptimizer* const device : devices)
    states.push_back(std::async(std::launch::async, [device] { return device->state(); }));
  for (const auto& state : states) state.wait();  // before an error of one destroys what others use
  std::optional<PartState> first;
  for (auto& state : states) {
    const Optimizer::State gathered = state.get();
    if (!first) first = part_state(gathered);
  }
  return std::move(first).value();
}

Install prepare_part(const std::vector<ShardedOptimizer*>& devices, const PartState& part) {
  Optimizer::State state = optimizer_state(part);
  for (const ShardedOptimizer* const device : devices) device->check_state(state);
  return [devices, state = std::move(state)] {
    for (ShardedOptimizer* const device : devices) device->load_state(state);
  };
}

}  // namespace tutti
