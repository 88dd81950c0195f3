// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/parts/backward_updates.h>
#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/member/parts/standing.h>
#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/replica/replica_gradients.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

namespace tutti {

/// The results of a device's steps: waits for the release of a step that was posted and takes what it brings, reduced
/// gradients or the group's error. This is the callback of the collective sync: the server answers a SyncWaiter, and
/// the thread that drives the device runs what follows from it, here. With Overlap::in_backward parameters are updated
/// here too. For the thread that drives the device.
class StepResults {
 public:
  /// Takes references: the arguments outlive the results.
  StepResults(const MemberPlace&, const Standing&, ReplicaGradients&);
  ~StepResults();  ///< waits for what is posted, without updates, as an optimizer may have gone before
  StepResults(const StepResults&) = delete;
  StepResults& operator=(const StepResults&) = delete;

  // --- a step
  void begin_step();  ///< makes what is posted the step before, of double buffering
  /// Waits, with double buffering, for the step before the one that is open, whose result is installed by `post`.
  /// Throws SyncError if that fails, or the calling thread would wait for itself.
  void join_earlier();
  /// The open step's collective sync was posted; `required`: what it required; `arena`: what was registered with it.
  void post(std::shared_ptr<SyncWaiter>, std::shared_ptr<const RequiredSet> required,
            std::shared_ptr<const GradientArena> arena);
  /// A posted step's result is not taken yet.
  bool is_posted() const noexcept { return posted_.waiter != nullptr; }
  /// Throws SyncError if waiting for the posted step would be for another device of the calling thread.
  void refuse_waiting_for_posted() const;
  /// Waits for the posted step, if there is one, and takes its result.
  void finish_posted() noexcept;
  /// Takes the result of a step that others made, on a device that follows.
  void take(const RoundResult&);
  /// Waits until no reduction that was launched touches this device's storage; null: nothing was.
  void wait_for_tasks(const RoundResult*) noexcept;

  // --- failures
  /// Tells the group that this device cannot go on. Returns when the server has taken note and no launched reduction
  /// touches this device's storage; gradients are undefined then.
  void fail(std::exception_ptr) noexcept;
  /// The error of the last step, until this device rejoins; null: there is none.
  const std::exception_ptr& failure() const noexcept { return failure_; }
  void set_failure(std::exception_ptr) noexcept;  ///< null: there is none
  /// A step may be posted or have failed: a join has something to do. Any thread.
  bool may_join() const noexcept { return may_join_.load(std::memory_order_relaxed); }
  void forget() noexcept;  ///< forgets what was of the old group

  // --- optimizers of Overlap::in_backward
  /// `owner`: keeps, locked, all that the optimizer's join uses.
  void attach(Optimizer&, std::weak_ptr<const void> owner);
  bool has_updates() const noexcept { return updates_ != nullptr; }
  /// Declares which parameters are updated here. A group whose devices do not agree cannot begin: all are told.
  void declare_updates(std::uint64_t group);
  std::vector<bool> updated() const;      ///< whether each is, by ParameterId; empty without optimizers
  void reset_updates();                   ///< forgets what a step that failed has left
  void poll_updates(bool unknown_reads);  ///< updates what can be updated now; never blocks

  // --- what was taken
  std::int64_t joined_generation() const noexcept { return joined_generation_; }
  /// Weight of the joined generation, over all devices.
  double total_weight() const noexcept { return total_weight_; }
  /// The last generation of the group whose result is in the parameters.
  std::int64_t last_applied() const;

 private:
  // A step on its way: its collective sync is posted, its gradients are being reduced in `arena`.
  struct Posted {
    std::shared_ptr<SyncWaiter> waiter;  // null: there is none
    std::shared_ptr<const GradientArena> arena;
    std::shared_ptr<const RequiredSet> required;
    std::int64_t generation = 0;
  };
  // The last step whose result the slots got, and the parameters as they were then; empty: no update is due.
  struct Installed {
    std::int64_t generation = 0;
    ReplicaGradients::Versions unwritten;
  };

  std::exception_ptr collect(Posted&, std::shared_ptr<const RoundResult>&) noexcept;
  void wait_for_reductions(const RoundResult&);
  void install(const RoundResult&, const Posted&);
  void note_installed(const RoundResult&);

  const MemberPlace place_;
  const Standing& standing_;
  ReplicaGradients& gradients_;
  Posted posted_;                               // the last step, or while one is open the one before
  Posted earlier_;                              // double buffering: the step before the one that is open, once ...
  std::shared_ptr<const RoundResult> arrived_;  // ... its result is in
  std::exception_ptr failure_;
  std::atomic<bool> may_join_{false};
  Installed installed_;
  std::int64_t joined_generation_ = 0;
  double total_weight_ = 0.0;
  std::unique_ptr<BackwardUpdates> updates_;
};

}  // namespace tutti
