// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/process_mark.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/launched_reductions.h>
#include <tutti/distributed/messages/replica_check.h>
#include <tutti/distributed/messages/sync_messages.h>
#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/report/sync_recorder.h>
#include <tutti/distributed/report/sync_text.h>
#include <tutti/distributed/server/answers/followers.h>
#include <tutti/distributed/server/answers/pending_answers.h>
#include <tutti/distributed/server/collective_queue.h>
#include <tutti/distributed/server/deadline_watch.h>
#include <tutti/distributed/server/group_state.h>
#include <tutti/distributed/server/launchers/gradient_launches.h>
#include <tutti/distributed/server/layout_learner.h>
#include <tutti/distributed/server/mailbox.h>
#include <tutti/distributed/server/other_processes.h>
#include <tutti/distributed/server/outside_checks.h>
#include <tutti/distributed/server/replica_registry.h>
#include <tutti/distributed/server/round.h>
#include <tutti/distributed/sync_options.h>
#include <tutti/distributed/sync_report.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The actor that reduces each gradient once every device that requires it has produced it. Its messages come from the
/// devices' threads, and its mailbox has them processed one at a time. What happens is decided by a SyncLedger; the
/// server owns what carries it out, each part in a header of distributed/server/: what the replicas have declared, the
/// open round, the launches, users' collectives, followers, and the watch over the deadlines.
/// All functions are thread-safe, except that parameters are declared before the first step.
class DistributedSyncServer {
 public:
  using Clock = CollectiveTask::Clock;

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

  /// `link`: to the group's other processes; null where there are none. With others, the engine is one that reduces
  /// over all of them, and SyncError names what they cannot do yet: checked_options.h.
  DistributedSyncServer(GroupMembers, std::unique_ptr<Communicator>, SyncOptions,
                        std::unique_ptr<ProcessLink> link = nullptr);
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
  std::shared_ptr<const GradientLayout> layout() const { return layouts_.layout(); }
  bool scatters() const noexcept { return options_.sharding == Sharding::gradients; }
  void on_reformed(Reformed callback) { reformed_ = std::move(callback); }

  // --- a step. register_parameters and submit throw the group's error if it has failed.
  void check_alive() const { state_.check_alive(); }
  /// True if the group has failed and not formed again.
  bool has_failed() const noexcept { return state_.has_failed(); }
  /// `arena`: of `layout()`; its memory is written from `arena_free` on, or at once where that is unrecorded: then
  /// nothing that is pending on the device may touch it. Null, when gradients are scattered: they are reduced from
  /// where they are, which nobody may write any more. `passes_on`: its gradients count with weight 0, too. `opened`:
  /// when the device's step was, for the report.
  void register_parameters(Stamp, double weight, std::shared_ptr<const RequiredSet>,
                           std::shared_ptr<const GradientArena>, Event arena_free = {}, bool passes_on = false,
                           Clock::time_point opened = {});
  /// `registered`: the arena that the sender registered for the step, or null. A gradient that lies in its place there
  /// is not looked at again.
  void submit(Stamp, ParameterId, GradientRef, const GradientArena* registered);
  std::shared_ptr<SyncWaiter> collective_sync(Stamp, std::unique_ptr<BufferShare> = nullptr);
  void check_replica(Stamp, ReplicaDigest, std::shared_ptr<SyncWaiter>);  ///< digest before the step of the stamp
  /// Reductions that the generation of the caller's open step has launched, less the first `known`; with
  /// Overlap::in_backward.
  std::vector<RoundResult::Reduced> launched_after(std::size_t known) const { return launched_.after(known); }
  void note_joined(Stamp);                                         ///< records the join for the report
  bool has_others() const noexcept { return others_ != nullptr; }  ///< there are other processes
  /// Takes what a replica holds before its first step. The first counts: replicas of a process begin alike, or differ
  /// in one process, too.
  void declare_values(ReplicaDigest values) { replicas_.declare_values(std::move(values)); }
  bool has_replicas() const { return !replicas_.is_empty(); }  ///< some replica has declared parameters or buffers

  /// A device's part in a collective. The waiter is answered when all devices have posted
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
  void close(bool unwound = false);  ///< `unwound`: by an exception, as other processes are told
  void cancel();                     ///< fails the group, and closes it: SyncOptions::cancel
  /// Waits, where all devices of this process have left and others have not, until these have, or the group has failed:
  /// the others reduce with this process until then; and until this process has done its share of users' collectives,
  /// unless `unwound` by an exception. Not called while this process's devices step or post.
  void await_others(bool unwound);
  /// Passes a warning to SyncOptions::warn; callable on any thread.
  void tell(std::string warning) { watch_.tell(std::move(warning)); }
  /// Ends the thread that calls `warn`: for who closed the group, on another thread than that one.
  void stop_watching() { watch_.stop(); }

  /// The member's thread helps with reductions for some hundred microseconds, then blocks until the answer is there.
  void await(const Answered&, MemberIndex);
  /// The same, for the release of its step: where there are other processes, it does this one's share until then.
  void await_release(const Answered&, MemberIndex);
  Communicator& communicator() noexcept { return *communicator_; }
  const SyncOptions& options() const noexcept { return options_; }
  const GroupMembers& members() const noexcept { return members_; }
  /// False in a process forked from the one that made the server: nothing of it can be used there.
  bool here() const noexcept { return made_.here(); }
  /// The calling thread runs the group's `warn` or `dump`, where nothing may be waited for.
  bool in_callback() const noexcept;
  /// The calling thread runs a callback of any group: another group may wait for this thread, and must not.
  static bool in_any_callback() noexcept;
  /// Throws SyncError, naming the operation, unless `here` and not `in_callback`.
  void refuse_where_nothing_comes(std::string_view operation) const;
  void refuse_elsewhere(std::string_view operation) const;
  std::uint64_t group_number() const { return state_.number(); }
  SyncReport report() const;
  std::string recent_events() const;  ///< a line for each of the last events, newest last

 private:
  // --- messages, each processed by one thread at a time
  void post(SyncMessage&&);
  void post(SyncMessage&&, MemberIndex);
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
  void handle(ProcessesSaid&);
  void handle(std::unique_ptr<ProcessEnded>&);
  void handle(RoundReduced&);
  void handle(AwaitOthers&);
  void handle(Close&);
  void handle(Cancel&);

  // --- what the ledger decides
  void perform_actions();
  void perform(const Launch&);
  void perform(const Agree&);
  void perform(const Commit&);
  void perform(const Release&);
  void perform(const Fail&);
  void perform(const Reform&);
  void perform(const Strand&);

  void help_until(const Answered&, MemberIndex);
  void listen_to_others();
  std::vector<BufferShare> buffer_shares() const;
  void say_of_replicas(std::optional<ProcessLink::Bytes>);
  void hear_of_replicas(std::span<const ProcessLink::Bytes> by_rank);
  void be_silent_of_replicas();
  ReplicaDigest model_items(const ReplicaDigest& values) const;
  void tell_of_collectives();
  void hear_of_collective(std::span<const ProcessLink::Bytes> by_rank);
  CollectiveQueue::Results launch(const PostedCollective&);
  void hear_of_difference(const OtherProcesses::ModelDiffers&);
  bool refuse_lost_share(const Agreement&);
  void refuse_end_of_following(MemberIndex, bool unwound);
  void end_with_others(bool step_begins);
  void tell_others(const Fault&, const std::string& text);
  void take(DeclareParameters&);
  void open_ledger();
  SyncRound start_round();
  bool refuse_misfit(const SubmitGradient&, const SyncParameter&);
  MemberIndex first_member() const;
  void learn_layout();
  void make_buffers_equal();
  void serve_follower(MemberIndex);
  void end_when_all_left();
  bool receives_buffers(MemberIndex) const;
  void compare_replicas();
  void begin_deadlines_anew(Clock::duration stood_still);
  void check_collective_deadline(const CheckDeadlines&);
  void fail_group(const Fault&, const std::exception_ptr& cause, const std::string& detail = {});
  void tell_followers(std::shared_ptr<const ReplicaState>);
  void announce(const Fault&, const std::exception_ptr& cause, const std::string& detail);
  void refuse_joins(const std::string& text);
  void dump_events(const std::string& error) noexcept;
  void call_back(const std::function<void(const std::string&)>&, const std::string& text) const;
  std::string incomplete_text(const std::string& text, const std::string& waiting = "") const;
  std::string with_places(std::string text) const;
  std::string missing_now(const Missing&, std::chrono::nanoseconds waited) const;
  bool has_left(MemberIndex member) const { return ledger_ && ledger_->has_left(member); }
  bool all_left_here() const;
  void answer_when_over();
  bool is_current(std::uint64_t group) const { return group == ledger_->group(); }
  SyncNames names() const { return {members_, replicas_.parameters(), busy_}; }

  const ProcessMark made_;
  const GroupMembers members_;
  const SyncOptions options_;
  const std::unique_ptr<Communicator> communicator_;
  Reformed reformed_;

  // State that devices' threads touch beside the messages.
  Mailbox<SyncMessage> mailbox_;
  ReplicaRegistry replicas_;
  LayoutLearner layouts_;
  GroupState state_;
  LaunchedReductions launched_;         // reductions, for Overlap::in_backward and for who waits with other processes
  std::atomic<std::uint32_t> news_{0};  // messages processed, counted where there are other processes
  SyncRecorder recorder_;

  // Touched while messages are processed.
  std::unique_ptr<SyncLedger> ledger_;  // made by the first message that needs it
  std::vector<LedgerAction> actions_;
  SyncRound round_;
  GradientLaunches launches_;
  Followers followers_;
  PendingAnswers joiners_;  // devices that wait for the next group
  ReplicaCheck replica_check_;
  CollectiveQueue collectives_;
  std::vector<std::string> busy_;           // activities, by member
  std::unique_ptr<OtherProcesses> others_;  // null: there are none
  OutsideChecks outside_checks_;            // comparisons of replicas with theirs
  std::optional<AwaitOthers> leaving_;      // waits until the other processes' devices have left, too

  DeadlineWatch watch_;  // last: its thread uses all of the above
};

}  // namespace tutti
