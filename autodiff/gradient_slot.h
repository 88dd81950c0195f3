// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/parameter_id.h>
#include <tutti/autodiff/sparse_gradient.h>
#include <tutti/backend/array.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// undefined: no gradient. local: accumulated on this device only. reduced: the group's result, not to be added to.
/// scattered: reduced, but each device of the group has the part that it owns only, elsewhere.
/// applied: reduced, and its parameter is updated already; ends with the next step.
enum class GradientState : std::uint8_t { undefined, local, reduced, scattered, applied };

/// Reductions that are still to be joined before a gradient may be read.
class PendingGradients {
 public:
  virtual ~PendingGradients() = default;
  virtual void join() = 0;  ///< returns when the gradients are valid to read on their device's compute stream
};

/// The identity of a parameter in a synchronisation group.
struct Attachment {
  ParameterId id;
  std::string name;             ///< canonical, e.g. "fc2.weight"
  const void* group = nullptr;  ///< identity of the group's device member; compared only
};

/// A leaf's gradient and its place in a synchronisation group. Belongs to the leaf's tensor; one thread at a time.
struct GradientSlot {
  GradientState state = GradientState::undefined;
  Array gradient;                                ///< defined while state is local or reduced, unless `sparse`
  bool sparse = false;                           ///< collects `rows` in place of `gradient`
  std::vector<SparseGradient> rows;              ///< parts to be summed; void if state is undefined; none: zeros
  std::shared_ptr<const Attachment> attachment;  ///< null: not synchronised
  std::weak_ptr<PendingGradients> pending;
  bool unread = false;  ///< true for a leaf that only lets a graph go on here as on other devices: no part of a model
  /// The memory where the group wants the gradient: contiguous, of the parameter's shape. Undefined: anywhere.
  Array destination;
  mutable std::weak_ptr<Storage> lent;  ///< alive while somebody holds a gradient that `Tensor::grad` gave out

  /// Waits for the reduction in flight, if there is one. Rethrows its failure.
  void join_pending() const {
    if (const auto waiting = pending.lock()) waiting->join();
  }
};

}  // namespace tutti
