// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/loop/untrained_leaves.h>

#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/module_tree.h>
#include <tutti/nn/unshown_members.h>

#include <algorithm>

namespace tutti {

void UntrainedLeaves::check(Module& model, const std::vector<Tensor>& optimized, const Tensor& loss) {
  if (losses_ == 2 || (losses_ == 1 && suspects_.empty())) return;
  std::vector<UnshownLeaf> unshown = unshown_leaves(model, loss);
  std::erase_if(unshown, [&](const UnshownLeaf& leaf) {
    const auto node = leaf.leaf.lock();
    return std::ranges::any_of(optimized, [&](const Tensor& tensor) { return gradient_node(tensor) == node; });
  });
  ++losses_;
  for (const UnshownLeaf& leaf : unshown) {
    const auto node = leaf.leaf.lock();
    if (std::ranges::any_of(suspects_, [&](const auto& suspect) { return suspect.lock() == node; }))
      raise<Error>(
          "[trainer] the loss depends on {}, which requires a gradient and is among neither the parameters of the "
          "model "
          "({}) nor the optimizer's: nobody trains it. Does the module that holds it show it in visit? If it is no "
          "member, freeze it by set_requires_grad(false), or set EagerOptions::allow_other_leaves",
          to_string(leaf), class_name(model));
  }
  suspects_.clear();
  for (const UnshownLeaf& leaf : unshown) suspects_.push_back(leaf.leaf);
}

}  // namespace tutti
