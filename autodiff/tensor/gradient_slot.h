// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/autodiff/observer/sparse_gradient.h>
#include <tutti/backend/array.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// Tells what a slot holds. undefined: no gradient. accumulated: the sum of the backwards since it was cleared.
/// settled: the final gradient, as the attachment's owner has made it of more than this: not to be added to. elsewhere:
/// settled, but kept by the owner. applied: settled, and the parameter is updated with it already.
enum class GradientState : std::uint8_t { undefined, accumulated, settled, elsewhere, applied };

/// Work of an attachment's owner that is still to be joined before a gradient may be read.
class PendingGradients {
 public:
  virtual ~PendingGradients() = default;
  virtual void join() = 0;  ///< returns when the gradients are valid to read on their device's compute stream
};

/// A parameter as an observer of backwards knows it.
struct Attachment {
  ParameterId id;
  std::string name;             ///< canonical, e.g. "fc2.weight"
  const void* owner = nullptr;  ///< identity of who observes the parameter's backwards; compared only
};

/// A leaf's gradient, and who observes how it is made. Belongs to the leaf's tensor; one thread at a time.
struct GradientSlot {
  GradientState state = GradientState::undefined;
  Array gradient;                                ///< defined while accumulated or settled, unless `sparse`
  bool sparse = false;                           ///< collects `rows` in place of `gradient`
  std::vector<SparseGradient> rows;              ///< parts to be summed; void if state is undefined; none: zeros
  std::shared_ptr<const Attachment> attachment;  ///< null: nobody's
  std::weak_ptr<PendingGradients> pending;
  bool unread = false;  ///< true for a leaf that only lets a graph go on here as on other devices: no part of a model
  /// The memory where the owner wants the gradient: contiguous, of the parameter's shape. Undefined: anywhere.
  Array destination;
  mutable std::weak_ptr<Storage> lent;  ///< alive while somebody holds a gradient that `Tensor::grad` gave out

  /// Waits for the owner's work in flight, if there is any. Rethrows its failure.
  void join_pending() const {
    if (const auto waiting = pending.lock()) waiting->join();
  }
};

}  // namespace tutti
