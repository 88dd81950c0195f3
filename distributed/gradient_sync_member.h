// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/hash_table.h>
#include <tutti/distributed/expected_buckets.h>
#include <tutti/distributed/gradient_sync_state.h>
#include <tutti/distributed/gradient_sync_updates.h>
#include <tutti/distributed/replica_gradients.h>
#include <tutti/distributed/sharded/share_progress.h>
#include <tutti/distributed/shown_members.h>
#include <tutti/distributed/sync_server.h>

#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

class ShardedOptimizer;

/// One device's side of a GradientSync: its replica, and where it stands in the current step. It turns what autodiff
/// observes into the server's messages. Used by the thread that drives the device; what others may read is atomic.
class SyncMember final : public GradientObserver, public PendingGradients {
 public:
  SyncMember(DistributedSyncServer&, MemberIndex, Device);
  ~SyncMember() override;  ///< joins what is posted; the replica's parameters belong to no group afterwards

  // --- the replica
  void attach(Module&);  ///< gives every parameter an id, a name and this member as its group
  void attach(Optimizer&);
  const NamedTensors& parameters() const noexcept { return gradients_.parameters(); }
  const NamedTensors& buffers() const noexcept { return buffers_; }
  /// Keeps a share of the optimizer's state, and is joined before the parameters are used. One; null: none any more.
  void attach(ShardedOptimizer*);
  ShareProgress& share() noexcept { return share_; }
  void begin_share(std::int64_t step, std::size_t gathers);  ///< throws SyncError for gradients of an old group
  void refuse_old_group(std::string_view operation) const;
  const ReplicaGradients& gradients() const noexcept { return gradients_; }
  /// Parameters, buffers, hash tables and attached optimizers' state, copied; nobody else may be running.
  std::shared_ptr<const ReplicaState> capture() const;
  /// An attached optimizer threw midway through a step: the parameters are of none.
  bool torn() const;
  /// Throws SyncError if another number of optimizers is attached here, or the replica has other tables.
  void restore(const ReplicaState&);
  /// Restores what a failed step has changed on a device that is not behind: buffers, unless
  /// BufferPolicy::synchronised, and with Overlap::in_backward everything.
  void restore_failed_step(const ReplicaState&);

  // --- a step, in this order
  void begin_step(double weight);
  /// Throws SyncError, and fails the group, unless the weight is finite and >= 0.
  void require_weight(std::string_view operation, double weight);
  void begin_accumulation();  ///< a no_sync scope opens
  /// A no_sync scope closes. `weight`: that of what ran in it. `flaw`: why the step can then not be synchronised; null
  /// if it can. Unless it `counts`, its step is over.
  void end_accumulation(double weight, const char* flaw, bool counts) noexcept;
  /// `run` is the backward, under the options that it is given.
  void backward(double weight, BackwardOptions, const std::function<void(const BackwardOptions&)>& run);
  double root_weight(double weight) const;  ///< factor by which the root's gradient is multiplied
  void synchronize();
  /// Joins as PendingGradients says; rethrows, until this device rejoins, what failed its last step.
  void join() override;
  /// The step's scope ends. A failure (or a scope without a backward) is reported; returns when the server has taken
  /// note and no launched reduction touches this device's storage.
  void end_step(bool unwinding) noexcept;
  void refuse_check();  ///< throws SyncError where check_replica would
  /// Posts, between steps, what the replica holds; answered when all members have posted.
  std::shared_ptr<SyncWaiter> check_replica();
  void await(const SyncWaiter& waiter) { server_.await(waiter, index_); }
  void fail(std::exception_ptr) noexcept;
  /// Reports a failure from a thread that does not drive the device: waits for nothing, changes nothing here. The
  /// server answers when nothing more will be launched.
  std::shared_ptr<SyncWaiter> report_failure(std::exception_ptr) noexcept;

  bool is_current(std::uint64_t group, std::int64_t generation) const noexcept {
    return group == group_number_ && generation == generation_;
  }

  /// True if that step is the last one that was opened. Any thread.
  bool opened_last(std::uint64_t group, std::int64_t generation) const noexcept {
    return group == group_number_ && generation == open_generation_.load(std::memory_order_relaxed);
  }

  bool flush();
  void leave(bool follow);
  bool follow();
  void refuse_rejoin() const;     ///< throws SyncError where request_rejoin would
  void take_over_formed_group();  ///< a device that follows: the state of a group that has formed since, if one has
  std::shared_ptr<SyncWaiter> request_rejoin(std::int64_t last_step_applied);
  void finish_rejoin(SyncWaiter&);
  std::int64_t last_applied() const;  ///< the last generation of the group whose result is in the parameters
  /// A device that left enters the next group as the others form it, or, if it keeps a share, when it has the group's
  /// state: what it updates until then is of the old one. Any thread.
  void enter_group(std::uint64_t number) noexcept {
    std::uint64_t current = group_number_;
    while (current < number && !group_number_.compare_exchange_weak(current, number)) {
    }
  }

  // --- what autodiff tells
  void on_other_leaves(std::span<const Shape>) override;
  void on_backward_begin(Device, std::span<const ParameterUse>) override;
  void on_gradient_final(Device, ParameterId, GradientRef) override;
  std::uint32_t bucket_of(ParameterId id) const override { return buckets_.number_of(id); }
  void on_backward_end(Device) override;
  void on_backward_failed(Device, std::exception_ptr) override;

  DistributedSyncServer& server() const noexcept { return server_; }
  Device device() const noexcept { return device_; }
  MemberIndex index() const noexcept { return index_; }
  const void* group_identity() const noexcept { return this; }
  std::uint64_t group_number() const noexcept { return group_number_; }
  std::int64_t generation() const noexcept { return generation_; }
  double total_weight() const;
  /// A graph of this device holds a collective: gradients of other devices' losses may pass here.
  void note_recorded_collective() noexcept { passes_on_ = true; }
  bool weighted() const noexcept { return server_.options().reduction == GradientReduction::weighted_mean; }
  /// Number of the thread in which a step of this device is open and not yet posted; 0: none.
  std::uint64_t open_in_thread() const noexcept { return open_in_thread_.load(std::memory_order_relaxed); }
  /// The thread that opened the last step of this device; 0: none.
  std::uint64_t last_driver() const noexcept { return last_driver_.load(std::memory_order_relaxed); }
  void set_peers(std::vector<const SyncMember*> peers) { peers_ = std::move(peers); }
  /// Sets the pointer by which the replica's parameters and optimizers refer to this member. Locked, it keeps all that
  /// a join uses.
  void set_self(std::weak_ptr<SyncMember> self) { self_ = std::move(self); }

 private:
  friend class DeviceUse;
  enum class Phase : std::uint8_t { idle, open, posted };

  struct AttachedOptimizer {
    Optimizer* optimizer;
    std::weak_ptr<const void> lifetime;
  };

  // The last step whose result the slots got, and the parameters as they were then; empty: no update is due.
  struct Installed {
    std::int64_t generation = 0;
    ReplicaGradients::Versions unwritten;
  };

  // A step on its way: its collective sync is posted, its gradients are being reduced in `arena`.
  struct Posted {
    std::shared_ptr<SyncWaiter> waiter;  // null: there is none
    std::shared_ptr<const GradientArena> arena;
    std::shared_ptr<const RequiredSet> required;
    std::int64_t generation = 0;
  };

  bool double_buffered() const noexcept { return server_.options().overlap == Overlap::double_buffered; }
  bool in_backward() const noexcept { return server_.options().overlap == Overlap::in_backward; }
  Stamp stamp() const noexcept { return {index_, group_number_, generation_}; }
  void set_phase(Phase);
  void set_failure(std::exception_ptr) noexcept;  ///< null: there is none
  void require_replica(const char* operation) const;
  void require_optimizer(const char* operation) const;
  void require_living_optimizers(const char* operation) const;
  void declare_updates(std::uint64_t group);
  void register_with(std::span<const ParameterUse>);
  void refuse_inside_no_sync() const;
  void refuse_flawed_accumulation() const;
  bool counts() const noexcept { return weight_ > 0.0 || passes_on_; }
  void refuse_unfrozen() const;
  void refuse_replaced() const;
  void note_installed(const RoundResult&);
  std::exception_ptr collect(Posted&, std::shared_ptr<const RoundResult>&) noexcept;
  void finish_posted() noexcept;
  void join_earlier();
  void submit(ParameterId, GradientRef);
  void refuse_leaving_with_share() const;
  void give_up(ParameterId, GradientRef);
  void join_gathers();
  void settle_gathers() noexcept;
  ReplicaDigest digest() const;
  void append_buffers(ReplicaDigest&) const;
  void restore_tables(const ReplicaState&);
  bool check_is_due() const;
  void declare_frozen(const NamedTensors&);
  std::vector<SyncParameter> describe_buffers(const NamedTensors&) const;
  void refuse_foreign(const Optimizer&) const;
  std::unique_ptr<BufferShare> buffer_share();
  void install_buffers(const RoundResult&);
  void end_following();
  void take_over(const ReplicaState&);
  std::shared_ptr<SyncWaiter> next_answer();
  void take(const RoundResult&);
  void refuse_waiting_for_own_thread(std::int64_t generation) const;
  void refuse_waiting_for_posted() const;
  void wait_for_reductions(const RoundResult&);
  void install(const RoundResult&, const Posted&);
  void wait_for_tasks(const RoundResult*) noexcept;

  DistributedSyncServer& server_;
  MemberIndex index_;
  Device device_;
  ReplicaGradients gradients_;
  ShownMembers shown_;
  NamedTensors frozen_;  // parameters without a gradient
  NamedTensors buffers_;
  NamedTables tables_;            // hash tables, which grow
  ReplicaDigest buffers_before_;  // digest of the buffers as the step opened, where replicas are compared
  std::vector<AttachedOptimizer> optimizers_;
  ShardedOptimizer* sharded_ = nullptr;       // used by the thread that drives the device
  ShareProgress share_;                       // the sharded optimizer's progress; any thread
  ExpectedBuckets buckets_;                   // buckets of this step
  std::unique_ptr<BackwardUpdates> updates_;  // updates of Overlap::in_backward
  std::vector<const SyncMember*> peers_;
  std::weak_ptr<SyncMember> self_;

  Phase phase_ = Phase::idle;
  // Number of the device's group; once it has left, set by whoever makes the group form again.
  std::atomic<std::uint64_t> group_number_{1};
  std::uint64_t left_group_ = 0;      // number of its group when it left
  std::uint64_t followed_group_ = 0;  // number of the group in which it left, or whose state it has taken over
  std::int64_t generation_ = 0;
  double weight_ = 0.0;
  bool passes_on_ = false;
  std::size_t told_leaves_ = 0;                          // leaves of no group in the backward that had the most
  std::atomic<int> accumulations_{0};                    // no_sync scopes that are alive
  std::atomic<const char*> accumulation_flaw_{nullptr};  // a scope may end on another thread
  std::exception_ptr failure_;                           // error of the last step, until this device rejoins
  std::atomic<bool> may_join_{false};                    // a step may be posted or have failed
  std::shared_ptr<const RequiredSet> required_;
  Posted posted_;                               // the last step, or while one is open the one before
  Posted earlier_;                              // double buffering: the step before the one that is open, once ...
  std::shared_ptr<const RoundResult> arrived_;  // ... its result is in
  std::int64_t joined_generation_ = 0;
  Installed installed_;
  double total_weight_ = 0.0;                     // weight of the joined generation, over all devices
  std::atomic<std::uint64_t> open_in_thread_{0};  // other members' threads look
  std::atomic<std::int64_t> open_generation_{0};
  std::atomic<std::uint64_t> last_driver_{0};
  std::atomic<std::uint64_t> user_{0};  // the thread that is in a function of this device's
  bool attached_ = false;
  bool left_ = false;
  bool follows_ = false;
  std::exception_ptr lost_;  // why the results of the others' steps are of no use any more, until their state comes
};

}  // namespace tutti
