// SPDX-License-Identifier: Apache-2.0
// Devices that fail, leave, follow, or join again; deadlines, checks, the end. Everything here runs while the mailbox
// is drained: on one thread at a time.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_compression.h>

#include <algorithm>
#include <utility>

namespace tutti {

// No question may stay without an answer, also if its device asks again before it has one.
void DistributedSyncServer::replace(std::shared_ptr<SyncWaiter>& place, std::shared_ptr<SyncWaiter> waiter,
                                    MemberIndex member) {
  if (const auto earlier = std::exchange(place, std::move(waiter)))
    earlier->release(nullptr, std::make_exception_ptr(SyncError(fmt::format(
                                  "[sync] {} asked again before it had its answer", to_string(devices_[member])))));
}

void DistributedSyncServer::handle(DeviceFailed& message) {
  recorder_.note(SyncEvent::Kind::device_failed, message.stamp.generation, message.stamp.member);
  const MemberIndex member = message.stamp.member;
  if (message.stamp.group == ledger_->group() && joiners_[member]) {  // told by another thread: its own waits
    ledger_->abandon_joins();
    waiting_since_.reset();
    release_joiners(std::make_exception_ptr(SyncError(fmt::format(
        "[rejoin] {} failed before a group had formed: {}", to_string(devices_[member]), text_of(message.error)))));
  } else if (message.stamp.group == ledger_->group())
    fail_group({.kind = message.kind, .member = message.stamp.member, .generation = message.stamp.generation},
               message.error);
  const bool current = message.stamp.group == ledger_->group();
  message.waiter->release(current ? round_ : nullptr, error_for(message.stamp.group));
}

// Also from a device that left before, and follows no more.
void DistributedSyncServer::handle(Leave& message) {
  const MemberIndex leaver = message.stamp.member;
  if (!ledger_->has_left(leaver)) recorder_.note(SyncEvent::Kind::left, message.stamp.generation, leaver);
  follows_[leaver] = message.follow;
  if (!message.follow) unfetched_[leaver].clear();
  ledger_->leave(message.stamp, actions_, message.applied);
  perform_actions();
  compare_replicas();  // those who stay may have waited for this device
  if (!ledger_->all_left()) return;
  for (MemberIndex member = 0; member < devices_.size(); ++member) serve_follower(member);
  waiting_since_.reset();  // nobody waits any more
}

void DistributedSyncServer::handle(NextResult& message) {
  replace(followers_[message.member], std::move(message.waiter), message.member);
  serve_follower(message.member);
  if (followers_[message.member] && !waiting_since_) waiting_since_ = CollectiveTask::Clock::now();
}

// In order: results that wait for the device, then the group's failure, then the end.
void DistributedSyncServer::serve_follower(MemberIndex member) {
  if (!followers_[member]) return;
  auto& unfetched = unfetched_[member];
  if (!unfetched.empty()) {
    std::exchange(followers_[member], nullptr)->release(std::move(unfetched.front()));
    unfetched.pop_front();
  } else if (ledger_->fault()) {
    std::exchange(followers_[member], nullptr)->release(round_, error_for(ledger_->group()));
  } else if (ledger_->all_left()) {
    std::exchange(followers_[member], nullptr)->release(nullptr);
  }
}

void DistributedSyncServer::handle(JoinGroup& message) {
  recorder_.note(SyncEvent::Kind::rejoining, message.last_step_applied, message.member);
  replace(joiners_[message.member], message.waiter, message.member);
  if (!ledger_->join(message.member, message.group, message.last_step_applied, actions_, message.applied)) {
    joiners_[message.member] = nullptr;
    const std::string device = to_string(devices_[message.member]);
    std::exception_ptr error = error_for(ledger_->group());
    if (ledger_->closed())
      error = std::make_exception_ptr(SyncError(fmt::format("[sync] the group is closed: {} cannot rejoin", device)));
    else if (ledger_->has_left(message.member))
      error = std::make_exception_ptr(SyncError(fmt::format("[sync] {} has left: it cannot rejoin", device)));
    else if (!error)
      error = std::make_exception_ptr(
          SyncError(fmt::format("[sync] {} asked for group {}, but group {} has not failed: nothing to rejoin", device,
                                message.group, ledger_->group())));
    return message.waiter->release(nullptr, error);
  }
  if (!waiting_since_) waiting_since_ = CollectiveTask::Clock::now();
}

void DistributedSyncServer::handle(SetBusy& message) { busy_[message.member] = std::move(message.activity); }

std::string DistributedSyncServer::missing_now(const Missing& missing, std::chrono::nanoseconds waited) const {
  const std::int64_t generation = ledger_->current_generation();
  if (!replica_check_.awaited()) return missing_text(missing, generation, waited, names());
  const auto has_left = [this](MemberIndex member) { return ledger_->has_left(member); };
  return missing_checks_text(replica_check_.missing(has_left), generation, waited, names());
}

// A device posts this before it registers the step, and no step is released before all have registered it: what the
// devices compare is of one version, and a difference is found before the step is released, without waiting for it.
void DistributedSyncServer::handle(CheckReplica& message) {
  recorder_.note(SyncEvent::Kind::digested, message.stamp.generation, message.stamp.member);
  if (message.stamp.group != ledger_->group() || ledger_->fault()) {
    if (message.waiter) message.waiter->release(nullptr, error_for(message.stamp.group));
    return;
  }
  if (message.waiter && replica_check_.has_posted(message.stamp.member))
    return message.waiter->release(
        nullptr, std::make_exception_ptr(SyncError(fmt::format("[sync] {} asked for a check of the replicas before the "
                                                               "one that it asked for had been answered",
                                                               to_string(devices_[message.stamp.member])))));
  if (message.waiter && !waiting_since_) waiting_since_ = CollectiveTask::Clock::now();
  replica_check_.post(message.stamp.member, std::move(message.digest), std::move(message.waiter));
  compare_replicas();
}

void DistributedSyncServer::compare_replicas() {
  if (ledger_->fault() || replica_check_.empty()) return;
  if (!replica_check_.missing([this](MemberIndex member) { return ledger_->has_left(member); }).empty()) return;
  const std::int64_t generation = ledger_->current_generation();
  if (const auto difference = replica_check_.difference(devices_))
    return fail_group({.kind = Fault::Kind::diverged, .member = difference->member, .generation = generation}, nullptr,
                      difference->text);
  recorder_.note(SyncEvent::Kind::compared, generation);
  const auto waiters = replica_check_.clear();
  if (!waiters.empty()) {  // nobody but followers can be waiting for anything else
    waiting_since_.reset();
    const bool followed = std::ranges::any_of(followers_, [](const auto& follower) { return follower != nullptr; });
    if (followed) waiting_since_ = CollectiveTask::Clock::now();
  }
  for (const auto& waiter : waiters) waiter->release(nullptr);
}

// Whoever was waited for could not have come in that time.
void DistributedSyncServer::begin_deadlines_anew(const CheckDeadlines& message) {
  running_since_ = message.now;
  warned_ = collective_warned_ = false;
  if (waiting_since_ || std::ranges::any_of(collectives_, [](const auto& posted) { return !posted.empty(); }))
    tell(
        fmt::format("[sync] this process stood still for {:.3g} s (stopped, or without a processor): deadlines begin "
                    "anew",
                    std::chrono::duration<double>(message.stood_still).count()));
}

void DistributedSyncServer::handle(CheckDeadlines& message) {
  if (message.stood_still.count() > 0) begin_deadlines_anew(message);
  check_collective_deadline(message.now);
  if (!waiting_since_) return;
  const auto waited = message.now - std::max(*waiting_since_, running_since_);
  if (waited < options_.warn_after && waited < options_.fail_after) return;
  const Missing missing = ledger_->missing();
  const std::string text = missing_now(missing, waited);
  if (waited < options_.fail_after) {
    if (!std::exchange(warned_, true)) tell(text);
    return;
  }
  if (missing.joins.empty())
    return fail_group({.kind = Fault::Kind::deadline, .generation = ledger_->current_generation()}, nullptr, text);
  ledger_->abandon_joins();
  waiting_since_.reset();
  release_joiners(std::make_exception_ptr(SyncError(text)));
}

void DistributedSyncServer::handle(Close&) {
  recorder_.note(SyncEvent::Kind::closed, ledger_->current_generation());
  ledger_->close(actions_);
  perform_actions();
  release_joiners(std::make_exception_ptr(SyncError("[sync] the group was closed: no other will form")));
}

void DistributedSyncServer::perform(const Fail& failure) { announce(failure.fault, nullptr, {}); }

// The number counts even if copying the state fails: the devices then join the group after it.
void DistributedSyncServer::perform(const Reform& reform) {
  {
    const std::lock_guard lock(state_mutex_);
    group_number_ = reform.group;
    group_error_ = nullptr;
  }
  recorder_.note(SyncEvent::Kind::formed, static_cast<std::int64_t>(reform.group));
  if (options_.compression) options_.compression->roll_back();
  start_round();
  std::vector<MemberIndex> level;
  std::vector<MemberIndex> left;
  std::vector<Device> served;  // by the engine
  for (MemberIndex member = 0; member < devices_.size(); ++member)
    if (!ledger_->has_left(member) || follows_[member]) served.push_back(devices_[member]);
  communicator_->regroup(served);
  for (MemberIndex member = 0; member < devices_.size(); ++member)
    if (ledger_->has_left(member))
      left.push_back(member);
    else if (member != reform.ahead && !std::ranges::count(reform.behind, member))
      level.push_back(member);
  if (reformed_) tell_followers(reformed_({reform.group, reform.ahead, reform.behind, level, left}));
  failed_.store(false, std::memory_order_release);
  release_joiners(nullptr);
}

void DistributedSyncServer::perform(const Strand& strand) {
  waiting_since_.reset();
  release_joiners(std::make_exception_ptr(SyncError(
      fmt::format("[rejoin] {} has applied step {} and left, and no device that rejoins has applied it: it was "
                  "committed, and would be taken again without {}. Load one checkpoint's parameters and "
                  "optimizer state on every device that rejoins",
                  to_string(devices_[strand.ahead]), strand.generation, to_string(devices_[strand.ahead])))));
}

// They may have results that the group has gone back behind, and lack what a failed step has left on all others.
void DistributedSyncServer::tell_followers(std::shared_ptr<const ReplicaState> state) {
  if (!state) return;
  auto result = std::make_shared<RoundResult>();
  result->state = std::move(state);
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (!ledger_->has_left(member) || !follows_[member]) continue;
    unfetched_[member].clear();
    unfetched_[member].push_back(result);
    serve_follower(member);
  }
}

void DistributedSyncServer::release_joiners(const std::exception_ptr& error) {
  for (auto& joiner : joiners_)
    if (joiner) std::exchange(joiner, nullptr)->release(nullptr, error);
}

void DistributedSyncServer::fail_group(const Fault& fault, const std::exception_ptr& cause, const std::string& detail) {
  if (!ledger_) open_ledger();
  if (ledger_->fault()) return;
  std::vector<LedgerAction> announced_here;
  ledger_->fail(fault, announced_here);
  announce(fault, cause, detail);
}

// Every waiter of the incomplete generation gets the error, with what was launched of it so far.
void DistributedSyncServer::announce(const Fault& fault, const std::exception_ptr& cause, const std::string& detail) {
  const std::string text = fault_text(fault, cause, detail, names());
  const auto error = std::make_exception_ptr(SyncError(text));
  if (fault.kind != Fault::Kind::closed) {
    recorder_.note(SyncEvent::Kind::failed, fault.generation, fault.member,
                   fault.parameter ? fault.parameter->value : SyncEvent::kNone);
    dump_events(text);
  }
  {
    const std::lock_guard lock(state_mutex_);
    group_error_ = error;
  }
  failed_.store(true, std::memory_order_release);
  waiting_since_.reset();
  warned_ = false;
  for (auto& arena : arenas_) arena = nullptr;
  rows_.clear();
  for (auto& gradient : submitted_) gradient = Array();
  for (const auto& waiter : replica_check_.clear()) waiter->release(nullptr, error);
  for (auto& waiter : waiters_)
    if (waiter) std::exchange(waiter, nullptr)->release(round_, error);
  fail_collectives(error);
  for (MemberIndex member = 0; member < devices_.size(); ++member) serve_follower(member);
}

std::exception_ptr DistributedSyncServer::error_for(std::uint64_t group) const {
  const std::lock_guard lock(state_mutex_);
  if (group_error_) return group_error_;
  if (group == group_number_) return nullptr;
  return std::make_exception_ptr(SyncError(
      fmt::format("[sync] a message of group {} came when group {} had formed: rejoin first", group, group_number_)));
}

}  // namespace tutti
