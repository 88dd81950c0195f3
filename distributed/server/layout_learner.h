// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/layout/gradient_layout.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

/// The layout of the gradients, learned from the order in which they become final: at once after the first step, which
/// went by a guess; then when the order has been another one for some steps, so that a graph that changes back and
/// forth does not move memory each time. All but `layout` is called while messages are processed.
class LayoutLearner {
 public:
  enum class Policy {
    fixed,       ///< keeps the guess: where anything is sharded
    learn_once,  ///< learns after the first step alone
    follow,
  };
  explicit LayoutLearner(Policy policy) : policy_(policy) {}

  /// The layout of the next step; null before `guess`. Thread-safe.
  std::shared_ptr<const GradientLayout> layout() const;
  /// The same, for who processes messages.
  const std::shared_ptr<const GradientLayout>& current() const noexcept { return layout_; }

  /// Guesses that the last layers' gradients are final first.
  void guess(std::span<const SyncParameter>);
  void begin_generation() { order_.clear(); }
  /// A gradient of the member whose order counts is final.
  void note(ParameterId id) { order_.push_back(id); }
  /// Ends a generation: the order of all parameters that the layout had better have; none: it may stay.
  std::optional<std::vector<ParameterId>> learn(std::span<const SyncParameter>);
  /// Takes an order of all parameters for the layout from now on.
  void adopt(std::span<const SyncParameter>, std::span<const ParameterId> order);

 private:
  void set(std::shared_ptr<const GradientLayout>);

  const Policy policy_;
  mutable std::mutex mutex_;  // devices' threads read the layout, which is written while messages are processed
  std::shared_ptr<const GradientLayout> layout_;
  std::vector<ParameterId> order_;  // order of this generation's gradients so far
  int disagreements_ = 0;           // generations in a row whose order was another than the layout's
  bool learned_ = false;
};

}  // namespace tutti
