// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/distributed/collectives.h>
#include <tutti/distributed/sync_options.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;
class SyncMember;

/// Whether a device that left still wants the others' results, to keep its replica equal.
enum class Follow : std::uint8_t { no, yes };

/// Lets backwards of one micro-batch accumulate on this device only. Lives on the stack of the thread that drives the
/// device; the micro-batch's weight counts once a backward has run under it.
class [[nodiscard]] NoSync {
 public:
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  friend class Step;
  NoSync(SyncMember&, double weight);

  SyncMember& member_;
  double weight_;
  LocalAccumulation scope_;
};

/// One step of one device: the scope in which its backward is synchronised with the other devices' (one generation).
/// A scope that is left by an exception, or without a backward, reports the failure to the whole group. Used by one
/// thread, the one that drives the device.
class [[nodiscard]] Step {
 public:
  Step(Step&&) noexcept;
  Step& operator=(Step&&) = delete;
  ~Step();

  /// Accumulates locally while the result lives. `weight`: examples of the micro-batch; default: the step's.
  NoSync no_sync();
  NoSync no_sync(double weight);

  /// Backward, its gradients reduced as they become final, then `join`. Throws SyncError when the group failed, the
  /// culprit named; the gradients are then undefined.
  void backward(const Tensor& loss, const BackwardOptions& = {});
  /// The same without the wait: posts the collective sync and returns. Reading a gradient, an optimizer's step and the
  /// device's next step join.
  void backward_async(const Tensor& loss, const BackwardOptions& = {});
  /// For a device without a loss in this step: takes part with what was accumulated locally, or with nothing.
  void synchronize();
  void synchronize_async();
  /// Waits until the group has committed the step and this device's gradients are reduced. Throws at once, naming the
  /// device, if this thread itself drives a device that the round still waits for.
  void join();

  std::int64_t generation() const noexcept;
  double total_weight() const;                            ///< of all devices; known after join
  bool skipped() const { return total_weight() == 0.0; }  ///< no examples anywhere: gradients are undefined
  void fail(std::exception_ptr);                          ///< reports an error that the caller caught

 private:
  friend class GradientSync;
  explicit Step(SyncMember&, double weight);

  SyncMember* member_;  // null once moved from
  double weight_;
  int exceptions_at_start_;
};

/// Waits for several devices driven by one thread: all their steps must have been posted. Joins all; then rethrows the
/// first error.
void join_all(std::span<Step*> steps);
template <class... Steps> void join_all(Steps&... steps) {
  Step* all[] = {&steps...};
  join_all(std::span<Step*>(all));
}

/// Data parallelism over the devices of one process: replicas of a model whose gradients are averaged while their
/// backwards still run. Each device is driven by one thread at a time; different devices' functions may be called at
/// the same time, `replicate` and `attach` only before the first step.
class GradientSync {
 public:
  explicit GradientSync(std::vector<Device> devices, SyncOptions = {});
  ~GradientSync();  ///< closes: waits of incomplete steps fail, launched reductions finish
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// One independent copy of the model per device, parameters and buffers included, attached to this group.
  template <class M> std::vector<M> replicate(const M& model) {
    std::vector<M> replicas;
    replicas.reserve(devices().size());
    for (const Device device : devices()) {
      replicas.push_back(clone(model, device));
      attach(device, replicas.back());
    }
    return replicas;
  }
  /// Registers a replica's parameters as this device's. Replicas of one group must agree in names, order, shapes and
  /// dtypes, else SyncError naming the parameter, the devices and both values.
  void attach(Device, Module& replica);
  /// The optimizer whose state travels with the parameters when a device behind re-joins.
  void attach(Device, Optimizer&);

  const std::vector<Device>& devices() const noexcept;

  /// Opens this device's next step. `weight`: examples in its batch (of the final backward), finite and >= 0.
  Step step(Device, double weight = 1.0);
  /// End of this device's data: from now on it counts as an empty step of weight 0. With Follow::yes the others'
  /// results are kept for it until it fetches them with `follow`, whose memory grows with how far it lags.
  void leave(Device, Follow = Follow::no);
  /// For a device that left with Follow::yes: waits for the others' next step and installs its result in this device's
  /// gradients; false when all devices have left.
  bool follow(Device);

  // --- Collectives on tensors. Each device's thread calls with its own tensor; all devices post the same sequence, in
  // the same order, else every device gets a SyncError that names the number and both calls. A device that does not
  // post is named by the deadline, as in a step. They may stand anywhere between, before and in steps, and also after
  // `leave`. Sums run in device order: bitwise repeatable. What posts it records it for backward unless under NoGrad;
  // its gradient is a collective as well, so all devices must differentiate the same things in the same order, each on
  // a thread of its own (docs/synchronisation.md). Throws DeviceError, ShapeError or DTypeError before posting.

  /// Every device receives the devices' tensors combined; one shape, any numeric dtype. sum and mean have gradients.
  PendingTensor all_reduce(Device, const Tensor&, CollectiveOperation = CollectiveOperation::sum);
  /// The same, of which each device receives its part along axis 0. `parts`: their lengths, equal on all devices;
  /// default: as even as possible, the longer first. sum and mean have gradients.
  PendingTensor reduce_scatter(Device, const Tensor&, CollectiveOperation = CollectiveOperation::sum,
                               std::vector<std::int64_t> parts = {});
  /// Every device receives all devices' tensors one after the other along axis 0, whose length may differ.
  PendingTensor all_gather(Device, const Tensor&);
  /// Every device receives the root's tensor; the others' give shape and dtype only.
  PendingTensor broadcast(Device, const Tensor&, Device root);
  /// Cuts the tensor along axis 0 into one part for each device, which receives what all devices have for it one after
  /// the other. `parts`: their lengths, each device's own; default: as even as possible, the longer first.
  PendingTensor all_to_all(Device, const Tensor&, std::vector<std::int64_t> parts = {});
  void barrier(Device);  ///< returns when every device has called it

  void busy(Device, std::string activity);  ///< shown by deadline messages; empty: no longer
  /// After a failure: takes this device into the next group. Returns when every device has joined again or left;
  /// devices behind `last_step_applied` of the one ahead receive its parameters, buffers and optimizer state. Throws
  /// SyncError naming the missing devices after the deadline.
  void rejoin(Device, std::int64_t last_step_applied);

  /// Ends the group: waits of incomplete steps fail on every device, launched reductions finish. Idempotent.
  void close();

  std::uint64_t group_number() const;
  SyncReport report() const;          ///< what was recorded of the last steps; any thread
  void set_reductions_enabled(bool);  ///< off: gradients stay local; to measure exposed time

 private:
  class State;
  SyncMember& member(Device) const;

  std::unique_ptr<State> state_;
};

}  // namespace tutti
