// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/unshown_members.h>

#include <tutti/autodiff/engine/reached_leaves.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/registry.h>

#include <fmt/format.h>

#include <unordered_set>

namespace tutti {

std::vector<UnshownLeaf> unshown_leaves(Module& module, const Tensor& loss) {
  std::unordered_set<const Node*> shown;
  for (const auto& [name, member] : module.named_members()) shown.insert(gradient_node(member).get());
  std::vector<UnshownLeaf> unshown;
  for (auto& [node, reader] : reached_leaves(loss)) {
    const auto& leaf = static_cast<const LeafNode&>(*node);
    if (shown.contains(node.get()) || leaf.slot.unread) continue;
    unshown.push_back({leaf.shape, leaf.dtype, leaf.device, std::move(reader), node});
  }
  return unshown;
}

std::string to_string(const UnshownLeaf& leaf) {
  return fmt::format("a leaf {} {} on {}{}", to_string(leaf.dtype), to_string(leaf.shape), to_string(leaf.device),
                     leaf.reader.empty() ? "" : ", read by " + leaf.reader);
}

// What is still in use without the model is what it has shown.
std::size_t detail::unshown_bytes(std::unique_ptr<Module> model, Device device) {
  const auto bytes_in_use = [device] {
    synchronize(device);
    return memory_pool(device).statistics().in_use;
  };
  const NamedTensors shown = model->named_members();
  const std::size_t with_model = bytes_in_use();
  model.reset();
  return with_model - bytes_in_use();
}

}  // namespace tutti
