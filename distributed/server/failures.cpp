// SPDX-License-Identifier: Apache-2.0
// Devices that fail, leave, follow, or join again; deadlines, checks, the end. Everything here runs while the mailbox
// is drained: on one thread at a time.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/gradient_compression.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {
constexpr const char* kInPart = "; with Overlap::in_backward parameters may hold that step in part: load a checkpoint";
constexpr std::chrono::seconds kAfterStandstill{3};  // what fails so soon after one may have failed by it
}  // namespace

void DistributedSyncServer::handle(DeviceFailed& message) {
  recorder_.note(SyncEvent::Kind::device_failed, message.stamp.generation, message.stamp.member);
  const auto [member, group, generation] = message.stamp;
  if (is_current(group) && joiners_.waits(member)) {  // told by another thread: its own waits
    ledger_->abandon_joins();
    refuse_joins(
        fmt::format("[rejoin] {} failed before a group had formed: {}", members_.name(member), text_of(message.error)));
  } else if (is_current(group)) {
    fail_group({.kind = message.kind, .member = member, .generation = generation}, message.error);
  }
  message.waiter->release(is_current(group) ? round_.result : nullptr, state_.error_for(group));
}

// Also from a device that left before, and follows no more.
void DistributedSyncServer::handle(Leave& message) {
  const MemberIndex leaver = message.stamp.member;
  if (!ledger_->has_left(leaver)) recorder_.note(SyncEvent::Kind::left, message.stamp.generation, leaver);
  const bool stops_following = followers_.follows(leaver) && !message.follow;
  followers_.set(leaver, message.follow);
  ledger_->leave(message.stamp, actions_, message.applied);
  perform_actions();
  end_with_others(false);
  compare_replicas();  // those who stay may have waited for this device
  if (others_) be_silent_of_replicas();
  end_when_all_left();
  if (stops_following) refuse_end_of_following(leaver, false);
}

void DistributedSyncServer::end_when_all_left() {
  if (!ledger_->all_left()) return;
  for (MemberIndex member = 0; member < members_.size(); ++member) serve_follower(member);
  round_.waiting_since.reset();  // nobody waits any more
}

void DistributedSyncServer::handle(NextResult& message) {
  followers_.ask(message.member, std::move(message.waiter), members_);
  serve_follower(message.member);
  if (followers_.waits(message.member)) round_.begin_wait(Clock::now());
}

// In order: results that wait for the device, then the group's failure, then the end.
void DistributedSyncServer::serve_follower(MemberIndex member) {
  if (!followers_.waits_after_serving(member)) return;
  if (ledger_->fault())
    followers_.answer(member, round_.result, state_.error_for(ledger_->group()));
  else if (ledger_->all_left())
    followers_.answer(member, nullptr);
}

void DistributedSyncServer::handle(JoinGroup& message) {
  recorder_.note(SyncEvent::Kind::rejoining, message.last_step_applied, message.member);
  joiners_.ask(message.member, std::move(message.waiter), members_);
  if (!ledger_->join(message.member, message.group, message.last_step_applied, actions_, message.applied)) {
    const std::string device = members_.name(message.member);
    std::exception_ptr error = state_.error_for(ledger_->group());
    if (ledger_->closed())
      error = std::make_exception_ptr(SyncError(fmt::format("[sync] the group is closed: {} cannot rejoin", device)));
    else if (others_)
      error = std::make_exception_ptr(SyncError(fmt::format(
          "[rejoin] the group of {} spans several processes, which have to start anew after a failure", device)));
    else if (ledger_->has_left(message.member))
      error = std::make_exception_ptr(SyncError(fmt::format("[sync] {} has left: it cannot rejoin", device)));
    else if (!error)
      error = std::make_exception_ptr(
          SyncError(fmt::format("[sync] {} asked for group {}, but group {} has not failed: nothing to rejoin", device,
                                message.group, ledger_->group())));
    return joiners_.answer(message.member, nullptr, error);
  }
  round_.begin_wait(Clock::now());
}

void DistributedSyncServer::handle(SetBusy& message) { busy_[message.member] = std::move(message.activity); }

std::string DistributedSyncServer::missing_now(const Missing& missing, std::chrono::nanoseconds waited) const {
  const std::int64_t generation = ledger_->current_generation();
  if (outside_checks_.is_awaited())
    return missing_checks_text({}, generation, waited, names(), others_->missing(ProcessLink::Line::checks));
  if (!replica_check_.awaited()) {
    Missing all = missing;
    if (others_ && (missing.agreement || missing.commit)) all.ranks = others_->missing(ProcessLink::Line::round);
    return missing_text(all, generation, waited, names());
  }
  const auto has_left = [this](MemberIndex member) { return ledger_->has_left(member); };
  return missing_checks_text(replica_check_.missing(has_left), generation, waited, names());
}

// A device posts this before it registers the step, and no step is released before all have registered it: what the
// devices compare is of one version, and a difference is found before the step is released, without waiting for it.
void DistributedSyncServer::handle(CheckReplica& message) {
  recorder_.note(SyncEvent::Kind::digested, message.stamp.generation, message.stamp.member);
  if (!is_current(message.stamp.group) || ledger_->fault()) {
    if (message.waiter) message.waiter->release(nullptr, state_.error_for(message.stamp.group));
    return;
  }
  if (message.waiter && replica_check_.has_posted(message.stamp.member))
    return message.waiter->release(
        nullptr, std::make_exception_ptr(SyncError(fmt::format("[sync] {} asked for a check of the replicas before the "
                                                               "one that it asked for had been answered",
                                                               members_.name(message.stamp.member)))));
  if (message.waiter) round_.begin_wait(Clock::now());
  replica_check_.post(message.stamp.member, std::move(message.digest), std::move(message.waiter));
  compare_replicas();
}

void DistributedSyncServer::compare_replicas() {
  if (ledger_->fault() || replica_check_.empty()) return;
  if (!replica_check_.missing([this](MemberIndex member) { return ledger_->has_left(member); }).empty()) return;
  const std::int64_t generation = ledger_->current_generation();
  if (const auto difference = replica_check_.difference(members_))
    return fail_group({.kind = Fault::Kind::diverged, .member = difference->member, .generation = generation}, nullptr,
                      difference->text);
  if (others_) {
    ReplicaDigest held = replica_check_.first();
    // With double buffering one process may have released a step that another one has not.
    const std::int64_t before = options_.overlap == Overlap::double_buffered ? 0 : generation;
    return say_of_replicas(outside_checks_.begin(before, std::move(held), replica_check_.clear()));
  }
  recorder_.note(SyncEvent::Kind::compared, generation);
  const auto waiters = replica_check_.clear();
  if (!waiters.empty()) {  // nobody but followers can be waiting for anything else
    round_.waiting_since.reset();
    if (followers_.any_waits()) round_.begin_wait(Clock::now());
  }
  for (const auto& waiter : waiters) waiter->release(nullptr);
}

// Whoever was waited for could not have come in that time.
void DistributedSyncServer::begin_deadlines_anew(Clock::duration stood_still) {
  round_.warned = false;
  collectives_.begin_deadlines_anew();
  if (round_.waiting_since || !collectives_.is_empty())
    tell(
        fmt::format("[sync] this process stood still for {:.3g} s (stopped, or without a processor): deadlines begin "
                    "anew",
                    std::chrono::duration<double>(stood_still).count()));
}

void DistributedSyncServer::handle(CheckDeadlines& message) {
  if (message.stood_still.count() > 0) begin_deadlines_anew(message.stood_still);
  check_collective_deadline(message);
  if (!round_.waiting_since) return;
  const auto waited = message.now - std::max(*round_.waiting_since, message.running_since);
  // Who is waited for may wait in a collective, which it alone knows: it speaks first, by two looks at the clock.
  const auto patience = others_ ? options_.fail_after + options_.fail_after / 4 : options_.fail_after;
  if (waited < options_.warn_after && waited < patience) return;
  const Missing missing = ledger_->missing();
  const std::string text = missing_now(missing, waited);
  if (waited < patience) {
    if (!std::exchange(round_.warned, true)) tell(with_places(text));
    return;
  }
  if (missing.joins.empty())
    return fail_group({.kind = Fault::Kind::deadline, .generation = ledger_->current_generation()}, nullptr, text);
  ledger_->abandon_joins();
  refuse_joins(text);
}

void DistributedSyncServer::check_collective_deadline(const CheckDeadlines& message) {
  const auto waited = collectives_.waited(message.now, message.running_since);
  if (waited < std::min(options_.warn_after, options_.fail_after)) return;
  const std::string text = collectives_.missing_text(
      waited, names(), [this](MemberIndex member) { return has_left(member); },
      others_ ? others_->missing(ProcessLink::Line::collectives) : std::vector<int>());
  if (waited >= options_.fail_after) return fail_group({.kind = Fault::Kind::deadline}, nullptr, text);
  if (collectives_.warn_once()) tell(with_places(text));
}

// Nobody waits for anything else while a group forms.
void DistributedSyncServer::refuse_joins(const std::string& text) {
  round_.waiting_since.reset();
  joiners_.answer_all(nullptr, std::make_exception_ptr(SyncError(text)));
}

void DistributedSyncServer::handle(Close& message) {
  if (others_ && message.unwound && !ledger_->fault() && !ledger_->all_left())
    others_->end(fmt::format("[sync] {}was unwound by an exception after generation {}", names().process(),
                             ledger_->current_generation() - 1),
                 ledger_->current_generation() - 1, false);
  if (others_ && collectives_.has_told() && !ledger_->fault())
    others_->end(fmt::format("[sync] {}closed its group before {}, which it had posted", names().process(),
                             collectives_.next_text()),
                 ledger_->current_generation() - 1, false);
  recorder_.note(SyncEvent::Kind::closed, ledger_->current_generation());
  ledger_->close(actions_);
  perform_actions();
  joiners_.answer_all(nullptr, std::make_exception_ptr(SyncError("[sync] the group was closed: no other will form")));
}

void DistributedSyncServer::handle(Cancel&) {
  if (ledger_->closed()) return;
  const std::int64_t generation = ledger_->current_generation();
  const std::string text = fmt::format("[sync] {}was cancelled in generation {} (SyncOptions::cancel)",
                                       others_ ? names().process() : "the group ", generation);
  if (!ledger_->all_left()) fail_group({.kind = Fault::Kind::cancelled, .generation = generation}, nullptr, text);
  joiners_.answer_all(nullptr, std::make_exception_ptr(SyncError(text)));
  Close close;
  handle(close);  // for good
}

void DistributedSyncServer::perform(const Fail& failure) { announce(failure.fault, nullptr, {}); }

// The number counts even if copying the state fails: the devices then join the group after it.
void DistributedSyncServer::perform(const Reform& reform) {
  state_.form(reform.group);
  recorder_.note(SyncEvent::Kind::formed, static_cast<std::int64_t>(reform.group));
  if (options_.compression) options_.compression->roll_back();
  start_round();
  std::vector<MemberIndex> level;
  std::vector<MemberIndex> left;
  std::vector<Member> served;  // by the engine
  for (MemberIndex member = 0; member < members_.size(); ++member)
    if (!ledger_->has_left(member) || followers_.follows(member)) served.push_back(members_[member]);
  communicator_->regroup(served);
  for (MemberIndex member = 0; member < members_.size(); ++member)
    if (ledger_->has_left(member))
      left.push_back(member);
    else if (member != reform.ahead && !std::ranges::count(reform.behind, member))
      level.push_back(member);
  if (reformed_) tell_followers(reformed_({reform.group, reform.ahead, reform.behind, level, left}));
  state_.open();
  joiners_.answer_all(nullptr);
}

void DistributedSyncServer::perform(const Strand& strand) {
  refuse_joins(
      fmt::format("[rejoin] {} has applied step {} and left, and no device that rejoins has applied it: it was "
                  "committed, and would be taken again without {}. Load one checkpoint's parameters and "
                  "optimizer state on every device that rejoins",
                  members_.name(strand.ahead), strand.generation, members_.name(strand.ahead)));
}

// They may have results that the group has gone back behind, and lack what a failed step has left on all others.
void DistributedSyncServer::tell_followers(std::shared_ptr<const ReplicaState> state) {
  if (!state) return;
  auto result = std::make_shared<RoundResult>();
  result->state = std::move(state);
  for (MemberIndex member = 0; member < members_.size(); ++member) {
    if (!ledger_->has_left(member) || !followers_.follows(member)) continue;
    followers_.drop_unfetched(member);
    followers_.add(member, result);
    serve_follower(member);
  }
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
  std::string text = fault_text(fault, cause, detail, names());
  // Whom the others took for lost learns that from them, over any way, and has to know that they were right.
  const auto stood_still = watch_.stood_still(kAfterStandstill);
  const bool tells = others_ && fault.kind != Fault::Kind::closed && text.find("stood still for") == std::string::npos;
  if (tells && stood_still.count() > 0)
    text += fmt::format("; {}stood still for {:.3g} s before", names().process(),
                        std::chrono::duration<double>(stood_still).count());
  if (others_ && options_.overlap == Overlap::in_backward && !round_.result->reduced.empty() &&
      text.find(kInPart) == std::string::npos)
    text += kInPart;
  text = with_places(std::move(text));
  const auto error = std::make_exception_ptr(SyncError(text));
  if (fault.kind != Fault::Kind::closed) {
    recorder_.note(SyncEvent::Kind::failed, fault.generation, fault.member,
                   fault.parameter ? fault.parameter->value : SyncEvent::kNone);
    dump_events(text);
  }
  state_.fail(error);
  if (others_) tell_others(fault, text);
  round_.waiting_since.reset();
  round_.warned = false;
  launches_.submissions().drop();
  for (const auto& waiter : replica_check_.clear()) waiter->release(nullptr, error);
  round_.ended.answer_all(round_.result, error);
  collectives_.fail(error);
  outside_checks_.fail(error);
  for (MemberIndex member = 0; member < members_.size(); ++member) serve_follower(member);
}

}  // namespace tutti
