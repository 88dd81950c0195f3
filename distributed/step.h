// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/backend/device.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace tutti {

class GradientSync;
class SyncMember;

/// Lets backwards of one micro-batch accumulate on this device only. Lives on the stack of the thread that drives the
/// device, and ends before the step is synchronised; the micro-batch's weight counts once a backward has run under it.
/// A step of which one ended on another thread than it began on cannot be synchronised: SyncError.
class [[nodiscard]] NoSync {
 public:
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  friend class Step;
  NoSync(std::shared_ptr<SyncMember>, double weight);

  std::shared_ptr<SyncMember> member_;
  double weight_;
  std::uint64_t group_;  // identifies its step, with the generation
  std::int64_t generation_;
  std::uint64_t thread_;  // number of the thread on which it began
  std::unique_ptr<LocalAccumulation> scope_;
};

/// One step of one device: the scope in which its backward is synchronised with the other devices' (one generation).
/// A scope that is left by an exception, or without a backward, reports the failure to the whole group. Used by one
/// thread, the one that drives the device. May outlive its GradientSync, whose end fails it.
class [[nodiscard]] Step {
 public:
  Step(Step&&) noexcept;
  Step& operator=(Step&&) = delete;
  ~Step();

  /// Accumulates locally while the result lives. `weight`: examples of the micro-batch; default: the step's. Throws
  /// SyncError once the step is synchronised.
  NoSync no_sync();
  NoSync no_sync(double weight);
  /// Sets the weight of the batch whose backward is synchronised, where it was not known when the step was opened.
  void set_weight(double weight);

  /// Backward, its gradients reduced as they become final, then `join`. Throws SyncError when the group failed, the
  /// culprit named; the gradients are then undefined. A loss that reaches no parameter of the replica is an error
  /// (another copy of the model?). Leaves of no group that it reaches get their plain gradients, not scaled by the
  /// weight.
  void backward(const Tensor& loss, const BackwardOptions& = {});
  /// Does what `backward` does without the wait: posts the collective sync and returns. Reading a gradient, an
  /// optimizer's step and the device's next step join.
  void backward_async(const Tensor& loss, const BackwardOptions& = {});
  /// Acts as backward_async, by other means than a graph: `run` makes the calls that the observer among its options
  /// expects.
  void backward_by(const std::function<void(const BackwardOptions&)>& run);
  double root_weight() const;  ///< factor by which backward multiplies the root's gradient
  Device device() const noexcept;
  /// Takes part, on a device without a loss in this step, with what was accumulated locally, or with nothing.
  void synchronize();
  void synchronize_async();
  /// Waits until the group has committed the step and this device's gradients are reduced; with Overlap::in_backward
  /// until its parameters are updated. Throws at once, naming the device, if this same thread has opened another
  /// device's step and not posted it. Once it failed it throws that error, as the optimizer's step does, until the
  /// device rejoins. With Overlap::double_buffered there is nothing to wait for: backward itself has waited for the
  /// step before.
  void join();

  std::int64_t generation() const noexcept;
  /// Total weight of all devices in the step whose gradients are there; known after join.
  double total_weight() const;
  bool skipped() const { return total_weight() == 0.0; }  ///< no examples anywhere: gradients are undefined
  void fail(std::exception_ptr);                          ///< reports an error that the caller caught

 private:
  friend class GradientSync;
  Step(std::shared_ptr<SyncMember>, double weight);
  void refuse_past() const;  // throws SyncError once a later step was opened

  std::shared_ptr<SyncMember> member_;  // null once moved from
  double weight_;
  std::uint64_t group_;
  std::int64_t generation_;
  int exceptions_at_start_;
  std::exception_ptr thrown_;  // exception that unwinds it, where sync.step knows
};

/// Waits for several devices driven by one thread: all their steps must have been posted. Joins all; then rethrows the
/// first error.
void join_all(std::span<Step*> steps);
template <class... Steps> void join_all(Steps&... steps) {
  Step* all[] = {&steps...};
  join_all(std::span<Step*>(all));
}

}  // namespace tutti
