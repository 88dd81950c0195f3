// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/engine/reached_leaves.h>

#include <tutti/autodiff/tensor/tensor_access.h>

#include <unordered_set>

namespace tutti {

std::vector<ReachedLeaf> reached_leaves(const Tensor& root) {
  std::vector<ReachedLeaf> leaves;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open;
  const auto meet = [&](const std::shared_ptr<Node>& node, const Node* reader) {
    if (!node || !seen.insert(node.get()).second) return;
    if (node->is_leaf())
      leaves.push_back({node, reader != nullptr ? reader->title() : ""});
    else
      open.push_back(node.get());
  };
  meet(gradient_node(root), nullptr);
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < node->input_count(); ++i) meet(node->input(i), node);
  }
  return leaves;
}

}  // namespace tutti
