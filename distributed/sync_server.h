// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/process_mark.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_arena.h>
#include <tutti/distributed/launched_reductions.h>
#include <tutti/distributed/replica_check.h>
#include <tutti/distributed/shard_plan.h>
#include <tutti/distributed/sync_ledger.h>
#include <tutti/distributed/sync_messages.h>
#include <tutti/distributed/sync_options.h>
#include <tutti/distributed/sync_recorder.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/distributed/sync_text.h>
#include <tutti/distributed/sync_waiter.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tutti {

/// The actor that reduces each gradient once every device that requires it has produced it. Its messages come from the
/// devices' threads; whoever posts one processes the mailbox when nobody else is doing so. What happens is decided by a
/// SyncLedger; the server adds arrays, waiters, deadlines and the engine. One thread of its own watches the deadlines
/// and calls SyncOptions::warn.
/// All functions are thread-safe, except that parameters are declared before the first step.
class DistributedSyncServer {
 public:
  /// How a group forms again, by member.
  struct Reformation {
    std::uint64_t group = 0;
    MemberIndex ahead = 0;
    std::span<const MemberIndex> behind;
    std::span<const MemberIndex> level;  ///< the others that joined
    std::span<const MemberIndex> left;
  };
  /// Copies states while every member that has not left waits; returns the one that followers continue from, or null.
  using Reformed = std::function<std::shared_ptr<const ReplicaState>(const Reformation&)>;

  DistributedSyncServer(std::vector<Device>, std::unique_ptr<Communicator>, SyncOptions);
  ~DistributedSyncServer();  ///< closes and joins the deadline thread
  DistributedSyncServer(const DistributedSyncServer&) = delete;
  DistributedSyncServer& operator=(const DistributedSyncServer&) = delete;

  /// A replica's parameters, by ParameterId. Must equal those declared before; else SyncError naming the first that
  /// differs, both devices and both values. Devices may have left, or the group failed, before.
  void declare_parameters(MemberIndex, std::vector<SyncParameter>);
  /// Declares parameters without a gradient, and buffers, with the same checks as declare_parameters.
  void declare_frozen(MemberIndex, std::vector<SyncParameter>);
  void declare_buffers(MemberIndex, std::vector<SyncParameter>);
  /// Declares, with Overlap::in_backward, which parameters the member's optimizers update, by ParameterId. Must equal
  /// what was declared first in this group; else SyncError naming the first that differs and both devices.
  void declare_updates(MemberIndex, std::uint64_t group, std::vector<bool>);
  /// Layout of the gradients in the next step; null without parameters. Changes only between steps: with the first
  /// release, and when gradients become final in another order for some steps.
  std::shared_ptr<const GradientLayout> layout() const;
  bool scatters() const noexcept { return options_.sharding == Sharding::gradients; }
  void on_reformed(Reformed callback) { reformed_ = std::move(callback); }

  // --- a step. register_parameters and submit throw the group's error if it has failed.
  void check_alive() const;
  /// True if the group has failed and not formed again.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// `arena`: of `layout()`; its memory is written from `arena_free` on, or at once where that is unrecorded: then
  /// nothing that is pending on the device may touch it. Null, when gradients are scattered: they are reduced from
  /// where they are, which nobody may write any more. `passes_on`: its gradients count with weight 0, too.
  void register_parameters(Stamp, double weight, std::shared_ptr<const RequiredSet>,
                           std::shared_ptr<const GradientArena>, Event arena_free = {}, bool passes_on = false);
  void submit(Stamp, ParameterId, GradientRef);
  std::shared_ptr<SyncWaiter> collective_sync(Stamp, std::unique_ptr<BufferShare> = nullptr);
  void check_replica(Stamp, ReplicaDigest, std::shared_ptr<SyncWaiter>);  ///< digest before the step of the stamp
  /// Reductions that the generation of the caller's open step has launched, less the first `known`; with
  /// Overlap::in_backward.
  std::vector<RoundResult::Reduced> launched_after(std::size_t known) const { return launched_.after(known); }
  void note_joined(Stamp);    ///< records the join for the report
  bool has_replicas() const;  ///< some replica has declared parameters or buffers

  /// A device's part in a collective (sync_server_collectives.cpp). The waiter is answered when all devices have posted
  /// the same number, or the group fails.
  std::shared_ptr<CollectiveWaiter> post_collective(PostCollective);

  // --- failures, ends
  /// Answered, with the group's error, when nothing more will be launched.
  std::shared_ptr<SyncWaiter> device_failed(Stamp, std::exception_ptr, Fault::Kind = Fault::Kind::device_failed);
  /// `applied`: the last generation of its group that the member is known to have applied; 0: none.
  void leave(Stamp, bool follow, std::int64_t applied = 0);
  /// Asks for a follower's next result; a null result: all devices have left.
  std::shared_ptr<SyncWaiter> next_result(MemberIndex);
  std::shared_ptr<SyncWaiter> join_group(MemberIndex, std::uint64_t group, std::int64_t last_step_applied,
                                         std::int64_t applied = 0);
  void set_busy(MemberIndex, std::string activity);
  void close();
  void tell(std::string warning);  ///< passes it to SyncOptions::warn; callable on any thread
  /// Ends the thread that calls `warn`: for who closed the group, on another thread than that one.
  void stop_watching();

  /// The member's thread helps with reductions for some hundred microseconds, then blocks until the answer is there.
  void await(const Answered&, MemberIndex);
  Communicator& communicator() noexcept { return *communicator_; }
  const SyncOptions& options() const noexcept { return options_; }
  /// False in a process forked from the one that made the server: nothing of it can be used there.
  bool here() const noexcept { return made_.here(); }
  /// The calling thread runs the group's `warn` or `dump`, where nothing may be waited for.
  bool in_callback() const noexcept;
  /// The calling thread runs a callback of any group: another group may wait for this thread, and must not.
  static bool in_any_callback() noexcept;
  /// Throws SyncError, naming the operation, unless `here` and not `in_callback`.
  void refuse_where_nothing_comes(std::string_view operation) const;
  void refuse_elsewhere(std::string_view operation) const;
  std::uint64_t group_number() const;
  SyncReport report() const;
  std::string recent_events() const;  ///< a line for each of the last events, newest last

 private:
  // --- mailbox
  void post(SyncMessage);
  void post(SyncMessage, MemberIndex);
  void drain(SyncMessage&);
  void process(SyncMessage&);
  void handle(std::unique_ptr<DeclareParameters>&);
  void handle(RegisterSyncParameters&);
  void handle(SubmitGradient&);
  void handle(CollectiveSync&);
  void handle(std::unique_ptr<PostCollective>&);
  void handle(DeviceFailed&);
  void handle(Leave&);
  void handle(NextResult&);
  void handle(JoinGroup&);
  void handle(SetBusy&);
  void handle(CheckReplica&);
  void handle(CheckDeadlines&);
  void handle(Close&);

  // --- what the ledger decides
  void perform_actions();
  void perform(const Launch&);
  std::shared_ptr<CollectiveTask> reduce(const Launch&, const std::vector<Array>& results, AllReduceRequest);
  void scatter(const Launch&);
  void launch_scattered(const Launch&, RoundResult::Reduced, CollectiveRequest);
  void perform(const Release&);
  void perform(const Fail&);
  void perform(const Reform&);
  void perform(const Strand&);
  void take(DeclareParameters&);
  void check_transport(std::span<const SyncParameter>);
  void open_ledger();
  void make_room_for_parameters();
  void start_round();
  bool refuse_misfit(const SubmitGradient&);
  bool refuse_sparse_misfit(const SubmitGradient&);  // sync_server_sparse.cpp
  void perform_sparse(const Launch&);
  std::vector<SparseGradient> take_rows(ParameterId, MemberIndex);
  void learn_layout();
  MemberIndex first_member() const;
  void make_buffers_equal();
  void fail_group(const Fault&, const std::exception_ptr& cause, const std::string& detail = {});
  void announce(const Fault&, const std::exception_ptr& cause, const std::string& detail);
  void dump_events(const std::string& error) noexcept;
  void call_back(const std::function<void(const std::string&)>&, const std::string& text) const;
  void serve_follower(MemberIndex);
  void replace(std::shared_ptr<SyncWaiter>& place, std::shared_ptr<SyncWaiter>, MemberIndex);
  void compare_replicas();
  std::string missing_now(const Missing&, std::chrono::nanoseconds waited) const;
  void release_joiners(const std::exception_ptr&);
  void tell_followers(std::shared_ptr<const ReplicaState>);
  bool refuse_misfit(const PostCollective&);
  void launch_collective();
  void launch_gather();
  void answer_collective(std::vector<std::shared_ptr<CollectiveResult>>);
  void begin_deadlines_anew(const CheckDeadlines&);
  void check_collective_deadline(CollectiveTask::Clock::time_point now);
  std::string missing_collective_text(CollectiveTask::Clock::duration waited) const;
  void fail_collectives(const std::exception_ptr&);
  std::exception_ptr error_for(std::uint64_t group) const;
  SyncNames names() const { return {devices_, parameters_, busy_}; }
  void watch_deadlines();

  const ProcessMark made_;
  const std::vector<Device> devices_;
  const SyncOptions options_;
  const std::unique_ptr<Communicator> communicator_;
  Reformed reformed_;

  std::mutex mailbox_mutex_;  // guards queue_ and draining_: posts come from all devices' threads
  std::vector<SyncMessage> queue_;
  bool draining_ = false;

  // Arena that each device's own thread has registered last: a cache line each.
  struct alignas(64) Registered {
    std::shared_ptr<const GradientArena> arena;
  };
  std::vector<Registered> registered_;  // indexed by member

  // Touched only while draining (one thread at a time).
  std::vector<SyncMessage> batch_;      // taken from queue_
  std::unique_ptr<SyncLedger> ledger_;  // made by the first message that needs it
  bool stepped_ = false;                // a step has been registered: parameters are declared by then, or never
  std::vector<LedgerAction> actions_;
  std::vector<std::shared_ptr<const GradientArena>> arenas_;           // arenas of the current generation, by member
  std::vector<Event> arena_free_;                                      // events that free the arenas, by member
  std::vector<Event> ready_;                                           // events, by parameter * members + member
  std::unordered_map<std::size_t, std::vector<SparseGradient>> rows_;  // submitted, not launched; keys as in ready_
  std::vector<Array> submitted_;                                       // scattered gradients, indexed as ready_
  std::optional<ShardPlan> shards_;                                    // none if nothing is sharded
  std::vector<ParameterId> order_;  // order of this generation's submissions by the first member that has not left
  int layout_disagreements_ = 0;    // generations in a row whose order was another than the layout's
  bool layout_learned_ = false;
  std::vector<std::shared_ptr<SyncWaiter>> waiters_;                       // this generation's waiters, by member
  std::vector<BufferShare> buffers_;                                       // this generation's shares, by member
  std::shared_ptr<RoundResult> round_;                                     // result of the current generation so far
  LaunchedReductions launched_;                                            // reductions, for Overlap::in_backward
  std::vector<std::string> busy_;                                          // activities, by member
  std::vector<std::shared_ptr<SyncWaiter>> joiners_;                       // waiters of a re-forming group, by member
  std::vector<std::deque<std::shared_ptr<const RoundResult>>> unfetched_;  // results to fetch, by follower
  std::vector<std::shared_ptr<SyncWaiter>> followers_;                     // waiters, by follower
  ReplicaCheck replica_check_;                                             // posts of the current generation
  std::vector<bool> follows_;                                              // indexed by member
  std::optional<CollectiveTask::Clock::time_point> waiting_since_;         // the first wait of what is incomplete
  CollectiveTask::Clock::time_point running_since_{};                      // the process: no wait counts from before
  bool warned_ = false;
  std::vector<std::deque<PostCollective>> collectives_;  // posted, and not yet by all; by member
  std::int64_t collectives_done_ = 0;                    // the number of the last that all have posted, in this group
  bool collective_warned_ = false;                       // a warning about the next one was given

  mutable std::mutex
      state_mutex_;  // guards what devices' threads read beside the drain: parameters, layout, error, number
  std::vector<SyncParameter> parameters_;  // written while draining, before the first step
  std::optional<MemberIndex> declared_by_;
  std::vector<SyncParameter> frozen_descriptions_;
  std::optional<MemberIndex> frozen_declared_by_;
  std::vector<SyncParameter> buffer_descriptions_;  // constant from the first step on
  std::optional<MemberIndex> buffers_declared_by_;
  struct DeclaredUpdates {
    std::uint64_t group = 0;
    MemberIndex by = 0;
    std::vector<bool> updated;
  } updates_;
  std::shared_ptr<const GradientLayout> layout_;
  std::exception_ptr group_error_;
  std::uint64_t group_number_ = 1;
  SyncRecorder recorder_;
  std::atomic<bool> failed_{false};  // group_error_ is set; spares submissions the lock

  std::mutex deadline_mutex_;  // guards warnings_ and stopping_, with the thread below
  std::condition_variable deadline_condition_;
  std::vector<std::string> warnings_;  // texts to be passed to `warn`
  bool stopping_ = false;
  std::thread deadline_thread_;
};

}  // namespace tutti
