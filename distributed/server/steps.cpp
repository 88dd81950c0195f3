// SPDX-License-Identifier: Apache-2.0
// What the messages of a step do, and what the ledger decides. Everything here runs while messages are processed: on
// one thread at a time. Failures and ends: failures.cpp.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_compression.h>
#include <tutti/distributed/server/checked_options.h>
#include <tutti/distributed/server/launchers/gradient_check.h>

#include <utility>

namespace tutti {

namespace {

// These need no ledger, and may come long before the first step: the deadlines are looked at from the beginning,
// however long a model takes to build.
bool may_precede_declarations(const SyncMessage& message) {
  const auto* const said = std::get_if<ProcessesSaid>(&message);
  return (said != nullptr && said->line == ProcessLink::Line::collectives) ||
         std::holds_alternative<CheckDeadlines>(message) || std::holds_alternative<SetBusy>(message) ||
         std::holds_alternative<std::unique_ptr<PostCollective>>(message) ||
         std::holds_alternative<std::unique_ptr<DeclareParameters>>(message);
}

}  // namespace

// An exception that escapes a message would be lost in whichever thread happened to drain: it fails the group instead.
void DistributedSyncServer::process(SyncMessage& message) {
  actions_.clear();
  try {
    if (!ledger_ && !may_precede_declarations(message)) open_ledger();
    std::visit([this](auto& alternative) { handle(alternative); }, message);
    perform_actions();
  } catch (...) {
    if (!ledger_ && !others_) {  // no memory for it, or a group without a model
      state_.fail(std::current_exception());
      collectives_.fail(std::current_exception());
    } else {
      if (!ledger_) open_ledger();
      fail_group({.kind = Fault::Kind::engine_failed, .generation = ledger_->current_generation()},
                 std::current_exception());
      joiners_.answer_all(nullptr, state_.error_for(ledger_->group()));
    }
  }
  if (!others_) return;
  answer_when_over();
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

void DistributedSyncServer::open_ledger() {
  if (!layouts_.current()) layouts_.guess({});  // no parameters
  launches_.prepare();
  ledger_ = std::make_unique<SyncLedger>(
      SyncLedger::Configuration{.members = static_cast<std::uint32_t>(members_.size()),
                                .outside_devices = static_cast<std::uint32_t>(members_.outside()),
                                .layout = layouts_.current(),
                                .bucket_bytes = options_.bucket_bytes,
                                .reduction = options_.reduction,
                                .absent = options_.absent});
  start_round();
}

// Returns the round before. If there is no memory for the next, that one and those who wait in it stay.
SyncRound DistributedSyncServer::start_round() {
  SyncRound before =
      std::exchange(round_, SyncRound(members_.size(), ledger_->current_generation(), layouts_.current()));
  launched_.clear();
  layouts_.begin_generation();
  launches_.submissions().begin_generation();
  return before;
}

// --- what replicas declare. The sender alone hears of what does not fit.

void DistributedSyncServer::handle(std::unique_ptr<DeclareParameters>& message) {
  std::exception_ptr error;
  try {
    take(*message);
  } catch (...) {
    error = std::current_exception();
  }
  message->waiter->release(nullptr, error);
}

void DistributedSyncServer::take(DeclareParameters& message) {
  if (replicas_.has_same_parameters(message.member, message.parameters)) return;
  replicas_.refuse_late_parameters(message.member);
  prepare_transport(options_, message.parameters, members_);
  if (others_ && !communicator_->reduces_sparse()) refuse_across_processes(message.parameters);
  replicas_.set_parameters(message.member, std::move(message.parameters));
  layouts_.guess(replicas_.parameters());
  recorder_.set_parameters(replicas_.parameters().size());
  if (!ledger_) return;
  ledger_->set_layout(layouts_.current());
  round_.result->layout = layouts_.current();
  launches_.prepare();
}

// --- messages of a step

void DistributedSyncServer::handle(RegisterSyncParameters& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || !is_current(group)) return;
  replicas_.close_parameters();
  end_with_others(true);
  if (ledger_->fault()) return;
  recorder_.begun(group, generation, member, message.opened, message.at);
  if (!replicas_.parameters().empty() && !scatters() &&
      (!message.arena || message.arena->layout() != layouts_.current()))
    return fail_group({.kind = Fault::Kind::wrong_place, .member = member, .generation = generation}, nullptr,
                      message.arena ? "it registered another step's layout" : "it registered none");
  launches_.submissions().set_arena(member, std::move(message.arena), std::move(message.arena_free));
  ledger_->register_parameters(message.stamp, message.weight, std::move(message.required), actions_, message.passes_on);
}

void DistributedSyncServer::handle(SubmitGradient& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || !is_current(group)) return;
  if (message.parameter.value < replicas_.parameters().size()) {  // else the ledger objects
    const SyncParameter& parameter = replicas_.parameters()[message.parameter.value];
    if (refuse_misfit(message, parameter)) return;
    recorder_.ready(generation, member, message.parameter, message.at);
    launches_.submissions().add(message, parameter);
    if (member == first_member()) layouts_.note(message.parameter);
  }
  ledger_->submit(message.stamp, message.parameter, actions_);
}

// Whose order of gradients counts; any, when all have left and what comes is an error.
MemberIndex DistributedSyncServer::first_member() const {
  MemberIndex first = 0;
  while (first + 1 < members_.size() && ledger_->has_left(first)) ++first;
  return first;
}

bool DistributedSyncServer::refuse_misfit(const SubmitGradient& message, const SyncParameter& parameter) {
  if (!message.elsewhere) return false;
  const auto [member, group, generation] = message.stamp;
  const auto misfit = misfit_of(*message.elsewhere, message.parameter, parameter, launches_.submissions().arena(member),
                                members_[member].device);
  if (!misfit) return false;
  fail_group({.kind = misfit->kind, .member = member, .generation = generation, .parameter = message.parameter},
             nullptr, misfit->detail);
  return true;
}

void DistributedSyncServer::handle(CollectiveSync& message) {
  const auto [member, group, generation] = message.stamp;
  if (!is_current(group)) return message.waiter->release(nullptr, state_.error_for(group));
  // With what was launched before the failure: it may still be reducing this device's gradients.
  if (ledger_->fault()) return message.waiter->release(round_.result, state_.error_for(group));
  if (round_.ended.waits(member)) {  // the ledger objects to a second one; the first stays to hear of it
    ledger_->collective_sync(message.stamp, actions_);
    perform_actions();
    return message.waiter->release(nullptr, state_.error_for(group));
  }
  recorder_.backward_ended(generation, member, message.at);
  round_.ended.ask(member, std::move(message.waiter), members_);
  if (message.buffers) round_.buffers[member] = std::move(*message.buffers);
  round_.begin_wait(message.at);
  ledger_->collective_sync(message.stamp, actions_);
}

// Nobody is left without an answer: what cannot be matched any more is answered here, the rest waits in the queue. The
// ledger may not be open yet: groups without a model have collectives too.
void DistributedSyncServer::handle(std::unique_ptr<PostCollective>& posted) {
  const std::uint64_t group = posted->group;
  const bool alive = !ledger_ ? group == 1 : is_current(group) && !ledger_->fault();
  if (!alive) return posted->waiter->release(nullptr, state_.error_for(group));
  const MemberIndex member = posted->member;
  if (const auto misfit = collectives_.add(std::move(*posted)))
    return fail_group({.kind = Fault::Kind::collective, .member = member}, nullptr, *misfit);
  if (others_) return tell_of_collectives();
  if (!collectives_.is_matched()) return;
  collectives_.answer(launch(collectives_.posted()));
}

// The shares are planned when the ledger is opened.
CollectiveQueue::Results DistributedSyncServer::launch(const PostedCollective& all) {
  if (all.calls.front().kind == CollectiveKind::gather_in_place && !ledger_) open_ledger();
  return launch_collective(collectives_, all, *communicator_, launches_.shards());
}

// --- what the ledger decides

void DistributedSyncServer::perform_actions() {
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const LedgerAction action = std::move(actions_[i]);
    std::visit([this](const auto& alternative) { perform(alternative); }, action);
  }
  actions_.clear();
}

void DistributedSyncServer::perform(const Launch& launch) {
  const auto launched_at = Clock::now();  // before: another thread may finish it at once
  auto reduced = launches_.launch(launch);
  if (!reduced) return;
  recorder_.launched(launch.generation, launch.places, reduced->task, launched_at);
  if (options_.overlap == Overlap::in_backward || others_) launched_.append(*reduced);
  if (others_) others_->finish(reduced->task, Sequence::round, all_left_here());
  round_.result->reduced.push_back(std::move(*reduced));
}

// Its completion is known to all who read this round's result: a later failure undoes nothing of it.
void DistributedSyncServer::perform(const Commit& commit) {
  if (ledger_->fault()) return;
  if (!commit.launched) return others_->ask_commit(commit.generation);
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (const RoundResult::Reduced& reduced : round_.result->reduced) tasks.push_back(reduced.task);
  others_->after(tasks, [this, group = ledger_->group(), commit](std::exception_ptr error) {
    post(RoundReduced{group, commit.generation, std::move(error)});
  });
}

// A follower does. In several processes as all have agreed, whatever has become of it since.
bool DistributedSyncServer::receives_buffers(MemberIndex member) const {
  if (round_.ended.waits(member) || options_.buffers == BufferPolicy::synchronised) return false;
  return round_.agreement ? round_.agreement->registrations[members_.number(member)].follows
                          : followers_.follows(member);
}

// Those who have posted wait for it before they run their next forward; nobody still runs this step's.
void DistributedSyncServer::make_buffers_equal() {
  if (replicas_.buffers().empty() || !communicator_->enabled()) return;
  round_.result->followers_buffers.resize(members_.size());
  for (MemberIndex member = 0; member < members_.size(); ++member) {
    if (!receives_buffers(member)) continue;
    auto& arrays = round_.result->followers_buffers[member];
    for (const SyncParameter& buffer : replicas_.buffers())
      arrays.push_back(Array::empty(buffer.shape, buffer.dtype, members_[member].device));
    round_.buffers[member] = {
        .arrays = arrays, .ready = compute_stream(members_[member].device).record(), .reads = false};
  }
  for (CollectiveRequest& request : plan_buffers(options_.buffers, replicas_.buffers(), buffer_shares())) {
    if (others_) request.devices = members_.devices();
    auto task = communicator_->collective(std::move(request));
    if (others_) {
      others_->note_open(task);
      others_->finish(task, Sequence::round, all_left_here());
    }
    round_.result->buffer_tasks.push_back(std::move(task));
  }
}

// Of several processes rank 0 learns, and all take its order when they have agreed on a round with it.
void DistributedSyncServer::learn_layout() {
  const auto adopt = [&](std::span<const ParameterId> order) {
    layouts_.adopt(replicas_.parameters(), order);
    ledger_->set_layout(layouts_.current());
  };
  if (round_.agreement && round_.agreement->order) adopt(*round_.agreement->order);
  if (members_.number(0) != 0) return;
  auto order = layouts_.learn(replicas_.parameters());
  if (!order) return;
  if (others_)
    others_->propose(*std::move(order));
  else
    adopt(*order);
}

void DistributedSyncServer::perform(const Release& release) {
  round_.result->total_weight = release.total_weight;
  if (options_.compression) options_.compression->commit();
  if (release.total_weight == 0.0) launches_.submissions().drop_gradients();  // nothing took them
  recorder_.released(release.generation, release.total_weight, communicator_->enabled(), Clock::now());
  learn_layout();
  make_buffers_equal();
  for (MemberIndex member = 0; member < members_.size(); ++member)
    if (!round_.ended.waits(member) && ledger_->has_left(member) && followers_.follows(member))
      followers_.add(member, round_.result);  // before the round is taken: it may lack memory, and fails all who wait
  SyncRound released = start_round();
  released.buffers.clear();  // nobody who is answered finds them in use
  released.ended.answer_all(released.result);
  for (MemberIndex member = 0; member < members_.size(); ++member) serve_follower(member);
  end_with_others(false);
}

}  // namespace tutti
