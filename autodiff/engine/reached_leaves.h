// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/node.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// A leaf that requires a gradient, and an operation that reads it: "linear", with its Scope if it has one.
struct ReachedLeaf {
  std::shared_ptr<Node> leaf;  ///< a LeafNode
  std::string reader;          ///< "" of a root that is a leaf itself
};

/// Leaves that a tensor depends on, each once. Walks the graph, which backward may have passed before.
std::vector<ReachedLeaf> reached_leaves(const Tensor& root);

}  // namespace tutti
