// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives.h>
#include <tutti/distributed/step.h>
#include <tutti/distributed/sync_options.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/distributed/world_share.h>
#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

class Communicator;
class DistributedSyncServer;
class ProcessGroup;
class ProcessLink;
class SyncGroup;
class SyncMember;

/// Tells whether a device that left still wants the others' results, to keep its replica equal.
enum class Follow : std::uint8_t { no, yes };

/// Data parallelism over devices of one or several processes: replicas of a model whose gradients are averaged while
/// their backwards still run. Each device is driven by one thread at a time, else the group fails and every thread gets
/// a SyncError that names the device; different devices' functions may be called at the same time, `replicate` and
/// `attach` only before the first step. In a child process (`fork`) every function is a SyncError.
class GradientSync {
 public:
  /// Warns, once in a process, where a launcher has started several (launch_place): none of them would train with it.
  explicit GradientSync(std::vector<Device> devices, SyncOptions = {});
  /// Uses an engine of your own.
  GradientSync(std::vector<Device> devices, SyncOptions, std::unique_ptr<Communicator>);
  /// Makes this process's part of a group over all processes, each of which makes its own, with any devices; on a
  /// process that is alone, the group of its devices. SyncError for what several processes cannot do yet.
  GradientSync(ProcessGroup&, std::vector<Device> devices, SyncOptions = {});
  /// Makes this process's part of a group of several: `devices` are those that the link says it has. The engine reduces
  /// over all processes. SyncError for what they cannot do yet.
  GradientSync(std::vector<Device> devices, SyncOptions, std::unique_ptr<Communicator>, std::unique_ptr<ProcessLink>);
  /// Closes: waits of incomplete steps fail; what it owns lives until the last Step has ended. Where all devices of
  /// this process have left, it goes on for the other processes until theirs have, too, or have failed.
  ~GradientSync();
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
  /// Registers a replica's parameters and buffers as this device's. Replicas of one group must agree in names, order,
  /// shapes, dtypes and in what requires a gradient, else SyncError naming the parameter or buffer, the devices and
  /// both values. A parameter that begins to require one later fails the step. Buffers that the options' policy cannot
  /// keep equal (BufferPolicy, Overlap::double_buffered) are refused. In a group of several processes its dropout
  /// layers draw by the device's number in the world from now on.
  void attach(Device, Module& replica);
  /// An optimizer whose state travels with the parameters when a device behind re-joins, or one that follows goes on in
  /// the next group; the same ones in the same order on all devices, after the replica, and not destroyed before the
  /// last step. SyncError for a parameter that requires a gradient and is none of the replica's. With
  /// Overlap::in_backward it is required, before the first step, lives as long as the device steps or follows, and its
  /// `step` is an error while the group lives: the group updates the parameters, and its first step fails unless all
  /// devices agree on which.
  void attach(Device, Optimizer&);

  const std::vector<Device>& devices() const noexcept;  ///< this process's
  /// The devices of all processes, and which of them are this one's: `devices()[i]` has the number `first` + i.
  WorldShare world() const noexcept;

  /// Opens this device's next step. `weight`: examples in its batch (of the final backward), finite and >= 0; another
  /// one is a SyncError that fails the step on all devices, as in `no_sync` and `set_weight`.
  Step step(Device, double weight = 1.0);
  /// Opens it for `body(step)`, and returns what that does. What the body throws fails the step with its text on all
  /// devices, unless it has left: a Step that an exception unwinds cannot know which.
  template <class Body> auto step(Device device, double weight, Body&& body) {
    Step opened = step(device, weight);
    try {
      return std::forward<Body>(body)(opened);
    } catch (...) {
      opened.thrown_ = std::current_exception();
      throw;
    }
  }
  /// Waits, with Overlap::double_buffered, for the gradients of this device's last step, so that one more optimizer
  /// step uses them; false if there are none on their way. To be called before `leave`.
  bool flush(Device);
  /// End of this device's data: from now on it counts as an empty step of weight 0. With Follow::yes the others'
  /// results are kept for it until it fetches them with `follow`, whose memory grows with how far it lags, or leaves
  /// once more with Follow::no. Absent::subset has no results for it: there Follow::yes is a SyncError.
  void leave(Device, Follow = Follow::no);
  /// Waits, on a device that left with Follow::yes, for the others' next step and installs its result in this device's
  /// gradients (with Overlap::in_backward: in its parameters); false when all devices have left. A parameter that had
  /// no gradient in that step has none. Throws when the group has failed, and when the result cannot be taken: then
  /// again until the others have formed a new group, which several processes do not.
  bool follow(Device);

  // --- Collectives on tensors. Each device's thread calls with its own tensor; all devices post the same sequence, in
  // the same order, else every device gets a SyncError that names the number and both calls. A device that does not
  // post is named by the deadline, as in a step. They may stand anywhere between, before and in steps, and also after
  // `leave`. Sums run in a tree over the devices: bitwise repeatable. What posts it records it for backward unless
  // under NoGrad; its gradient is a collective as well, so all devices must differentiate the same things in the same
  // order, each on a thread of its own (docs/synchronisation.md). `purpose`, the same on all devices, says in errors
  // what it is for: "the validation loss of epoch 3"; at most kMostPurpose bytes. Throws DeviceError, ShapeError or
  // DTypeError before posting.

  /// Every device receives the devices' tensors combined; one shape, any numeric dtype. sum and mean have gradients.
  PendingTensor all_reduce(Device, const Tensor&, CollectiveOperation = CollectiveOperation::sum,
                           std::string purpose = {});
  /// Each device receives its part, along axis 0, of the devices' tensors combined as by all_reduce. `parts`: their
  /// lengths, equal on all devices; default: as even as possible, the longer first. sum and mean have gradients.
  PendingTensor reduce_scatter(Device, const Tensor&, CollectiveOperation = CollectiveOperation::sum,
                               std::vector<std::int64_t> parts = {}, std::string purpose = {});
  /// Every device receives all devices' tensors one after the other along axis 0, whose length may differ.
  PendingTensor all_gather(Device, const Tensor&, std::string purpose = {});
  /// Every device receives the root's tensor; the others' give shape and dtype only.
  PendingTensor broadcast(Device, const Tensor&, Member root, std::string purpose = {});
  /// Cuts the tensor along axis 0 into one part for each device, which receives what all devices have for it one after
  /// the other. `parts`: their lengths, each device's own; default: as even as possible, the longer first.
  PendingTensor all_to_all(Device, const Tensor&, std::vector<std::int64_t> parts = {}, std::string purpose = {});
  void barrier(Device, std::string purpose = {});  ///< returns when every device has called it

  /// Reports, also outside of a step, that this device cannot go on; all others' waits end with `error`'s text. Any
  /// thread: one that does not drive the device ends the wait of the one that does, and returns at once; before the
  /// device's first step, when the group has taken note.
  void fail(Device, std::exception_ptr error);
  void busy(Device, std::string activity);  ///< shown by deadline messages; empty: no longer
  /// Compares all replicas, hash tables, parameters and buffers bit by bit. Every device that has not left calls it at
  /// the same place between two steps; returns when all have. A difference fails the group: SyncError on every device,
  /// naming the first of them that differs, the devices and the digests. A device that does not come is named after the
  /// deadline. A thread that drives several devices passes them all at once.
  void check_consistency(Device device) { check_consistency(std::span<const Device>(&device, 1)); }
  void check_consistency(std::span<const Device>);
  /// Takes this device into the next group, after a failure. Returns when every device has joined again or left;
  /// devices behind `last_step_applied` of the one ahead receive its parameters, buffers, hash tables and optimizer
  /// state, the others its buffers. Throws SyncError naming the missing devices after the deadline, or one that has
  /// applied the last committed step and left, where none that joins has applied it.
  /// `last_step_applied` counts over the whole run, as the optimizer's steps() does, not as Step::generation().
  void rejoin(Device, std::int64_t last_step_applied);
  struct Rejoining {
    Device device;
    std::int64_t last_step_applied = 0;
  };
  void rejoin_all(std::span<const Rejoining>);  ///< the devices that one thread drives

  /// Ends the group: waits of incomplete steps fail on every device, launched reductions finish. Idempotent.
  void close();

  DistributedSyncServer& server() noexcept;  ///< the actor itself; steps speak to it in messages
  std::uint64_t group_number() const;
  SyncReport report() const;          ///< the record of the last steps; any thread
  std::string recent_events() const;  ///< a line for each of the last events, newest last; any thread
  /// Switches reductions on or off, between steps. Off: each device keeps its own gradients (accumulated ones
  /// undivided, absent ones undefined); to measure exposed time.
  void set_reductions_enabled(bool);

  /// The group itself, for parts of the library that are built on it.
  const std::shared_ptr<SyncGroup>& group() const noexcept { return group_; }

 private:
  std::shared_ptr<SyncMember> member(Device) const;
  PendingTensor post(Device, CollectiveCall, const Tensor&);

  std::shared_ptr<SyncGroup> group_;
  int exceptions_ = std::uncaught_exceptions();  // number of them when it was made
};

}  // namespace tutti
