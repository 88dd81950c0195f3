// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <memory>
#include <vector>

namespace tutti {

class Node;

/// Finds leaves that a trainer's losses depend on and that nobody trains, as a member that `visit` forgot. One counts
/// when two steps' losses have reached it: an input that requires a gradient is another in each. Looks at the first two
/// losses, or at one if there is nothing to suspect, and costs nothing after them.
class UntrainedLeaves {
 public:
  /// Throws Error naming the leaf and the model's class.
  void check(Module& model, const std::vector<Tensor>& optimized, const Tensor& loss);

 private:
  std::vector<std::weak_ptr<const Node>> suspects_;
  int losses_ = 0;
};

}  // namespace tutti
