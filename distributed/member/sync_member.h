// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/distributed/member/parts/following.h>
#include <tutti/distributed/member/parts/gradient_poster.h>
#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/member/parts/member_share.h>
#include <tutti/distributed/member/parts/replica.h>
#include <tutti/distributed/member/parts/standing.h>
#include <tutti/distributed/member/parts/step_results.h>
#include <tutti/distributed/member/parts/step_weight.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// One device's side of a group: takes what a program asks of the device through the phases of a step, and owns the
/// parts that do it, each in a header of distributed/member/. Used by the thread that drives the device, but for what
/// is said to be for any thread.
class SyncMember final : public PendingGradients {
 public:
  explicit SyncMember(const MemberPlace&);
  SyncMember(const SyncMember&) = delete;
  SyncMember& operator=(const SyncMember&) = delete;

  // --- the replica. `self` keeps, locked, all that a join uses: parameters and optimizers refer to it.
  void attach(Module&, const std::weak_ptr<SyncMember>& self);
  void attach(Optimizer&, const std::weak_ptr<SyncMember>& self);
  const Replica& replica() const noexcept { return replica_; }
  const NamedTensors& parameters() const noexcept { return replica_.parameters(); }
  const ReplicaGradients& gradients() const noexcept { return replica_.gradients(); }
  MemberShare& share() noexcept { return share_; }

  // --- a step, in this order
  void begin_step(double weight);
  /// Throws SyncError, and fails the group, unless the weight is finite and >= 0.
  void require_weight(std::string_view operation, double weight);
  void begin_accumulation();  ///< a no_sync scope opens
  /// A no_sync scope closes; see StepWeight. Any thread.
  void end_accumulation(double weight, const char* flaw, bool counts) noexcept;
  /// `run` is the backward, under the options that it is given.
  void backward(double weight, BackwardOptions, const std::function<void(const BackwardOptions&)>& run);
  double root_weight(double weight) const;  ///< factor by which the root's gradient is multiplied
  void synchronize();
  /// Joins as PendingGradients says; rethrows, until this device rejoins, what failed its last step.
  void join() override;
  /// The step's scope ends. A failure (or a scope without a backward) is reported; returns when the server has taken
  /// note and no launched reduction touches this device's storage.
  void end_step(bool unwinding, std::exception_ptr thrown) noexcept;
  bool is_current(std::uint64_t group, std::int64_t generation) const noexcept {
    return standing_.is_at(group, generation);
  }
  /// True if that step is the last one that was opened. Any thread.
  bool opened_last(std::uint64_t group, std::int64_t generation) const noexcept {
    return group == standing_.group() && generation == thread().open_generation();
  }
  double total_weight() const;

  // --- between steps
  void refuse_check();  ///< throws SyncError where check_replica would
  /// Posts, between steps, what the replica holds; answered when all members have posted.
  std::shared_ptr<SyncWaiter> check_replica();
  void await(const SyncWaiter& waiter) { place_.server.await(waiter, place_.index); }
  bool flush();
  void leave(bool follow);
  bool follow();
  void take_over_formed_group() { following_.take_over_formed_group(); }

  // --- failures, and the group after one
  void fail(std::exception_ptr error) noexcept { results_.fail(std::move(error)); }
  /// Reports a failure from a thread that does not drive the device: waits for nothing, changes nothing here. The
  /// server answers when nothing more will be launched.
  std::shared_ptr<SyncWaiter> report_failure(std::exception_ptr) noexcept;
  void refuse_rejoin() const;  ///< throws SyncError where request_rejoin would
  std::shared_ptr<SyncWaiter> request_rejoin(std::int64_t last_step_applied);
  void finish_rejoin(SyncWaiter&);
  /// A device that left enters the next group as the others form it, or, if it keeps a share, when it has the group's
  /// state: what it updates until then is of the old one. Any thread.
  void enter_group(std::uint64_t number) noexcept { standing_.enter(number); }
  /// Writes that state to the replica. Called while this device waits in rejoin.
  void restore(const ReplicaState& state) { replica_.restore(state); }
  /// Restores what a failed step has changed on a device that is not behind: buffers, and with Overlap::in_backward
  /// everything. Called as `restore` is.
  void restore_failed_step(const ReplicaState&);

  DistributedSyncServer& server() const noexcept { return place_.server; }
  DeviceThread& thread() const noexcept { return place_.thread(); }
  Device device() const noexcept { return place_.device; }
  std::string name() const { return place_.name(); }
  MemberIndex index() const noexcept { return place_.index; }
  /// Number in the group, over all processes.
  MemberIndex number() const noexcept { return static_cast<MemberIndex>(place_.server.members().number(place_.index)); }
  const void* identity() const noexcept { return this; }
  std::uint64_t group_number() const noexcept { return standing_.group(); }  ///< any thread
  std::int64_t generation() const noexcept { return standing_.generation(); }
  bool weighted() const noexcept { return place_.options().reduction == GradientReduction::weighted_mean; }
  void note_recorded_collective() noexcept { poster_.note_recorded_collective(); }

 private:
  bool is_open() const noexcept { return thread().phase() == DeviceThread::Phase::open; }
  void require_optimizer(const char* operation) const;
  void require_alive();
  void declare_beginning();

  const MemberPlace place_;
  Standing standing_;
  Replica replica_;
  StepWeight weight_;
  StepResults results_;
  MemberShare share_;
  GradientPoster poster_;
  Following following_;
};

}  // namespace tutti
