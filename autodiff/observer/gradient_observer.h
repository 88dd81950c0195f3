// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/autodiff/observer/sparse_gradient.h>
#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>

#include <cstdint>
#include <exception>
#include <span>
#include <vector>

namespace tutti {

/// One attached parameter that the starting backward will give a gradient to.
struct ParameterUse {
  ParameterId id;
  std::uint32_t contributions = 0;  ///< counted edges into the parameter; 0: only earlier, local accumulation
};

/// A final gradient on its way to the observer. The array is an owning reference to the parameter's gradient slot;
/// undefined means "all contributions were null": zeros. Of a parameter with sparse gradients it is undefined, and
/// `rows` are to be summed; none: zeros.
struct GradientRef {
  Array gradient;
  Event ready;  ///< recorded on the device's compute stream after the last write to `gradient` or `rows`
  /// Nodes are still to run of which autodiff does not know what they read: parameters may not be written.
  bool unknown_reads = false;
  std::vector<SparseGradient> rows = {};
};

/// Hears of every gradient of one backward, once, the moment it is final. Autodiff knows this interface
/// and nothing of distributed/. All calls of one backward come from the thread that runs it, in the order
/// begin, final..., end | failed; failed alone when the backward is refused before it begins. An exception thrown from
/// a call ends the backward.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;

  /// Leaves that require a gradient, are attached to nobody and will get theirs, by their shapes; before
  /// on_backward_begin, and only if there are any.
  virtual void on_other_leaves(std::span<const Shape>) {}
  virtual void on_backward_begin(Device, std::span<const ParameterUse>) = 0;  ///< called even if no parameter is used
  virtual void on_gradient_final(Device, ParameterId, GradientRef) = 0;
  /// The number of a portion of gradients that the observer takes together: it can begin nothing before the last of
  /// them is final. A replay runs on up to that one, and then tells of all that are. Asked after on_backward_begin, of
  /// the parameters that it named.
  virtual std::uint32_t portion_of(ParameterId id) const { return id.value; }
  virtual void on_backward_end(Device) = 0;
  virtual void on_backward_failed(Device, std::exception_ptr) = 0;
};

}  // namespace tutti
