// SPDX-License-Identifier: Apache-2.0
// What the messages do. Everything here runs while the mailbox is drained: on one thread at a time.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace tutti {

namespace {

// These need no ledger. Opened by one of them it would know too few parameters: the deadlines are looked at from the
// beginning, however long a model takes to build.
bool may_precede_declarations(const SyncMessage& message) {
  return std::holds_alternative<CheckDeadlines>(message) || std::holds_alternative<SetBusy>(message);
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
    if (!ledger_) {  // no memory for it: there is nothing to fail yet but what comes after
      const std::lock_guard lock(state_mutex_);
      group_error_ = std::current_exception();
      return failed_.store(true, std::memory_order_release);
    }
    fail_group({.kind = Fault::Kind::engine_failed, .generation = ledger_->current_generation()},
               std::current_exception());
    release_joiners(error_for(ledger_->group()));
  }
}

void DistributedSyncServer::open_ledger() {
  const std::lock_guard lock(state_mutex_);
  if (!layout_)
    layout_ = std::make_shared<const GradientLayout>(parameters_, std::vector<ParameterId>{});  // no parameters
  ledger_ =
      std::make_unique<SyncLedger>(SyncLedger::Configuration{.members = static_cast<std::uint32_t>(devices_.size()),
                                                             .layout = layout_,
                                                             .bucket_bytes = options_.bucket_bytes,
                                                             .reduction = options_.reduction,
                                                             .absent = options_.absent});
  arenas_.resize(devices_.size());
  arena_free_.resize(devices_.size());
  ready_.resize(parameters_.size() * devices_.size());
  waiters_.resize(devices_.size());
  start_round();
}

void DistributedSyncServer::start_round() {
  round_ = std::make_shared<RoundResult>();
  round_->generation = ledger_->current_generation();
  round_->layout = layout_;
  order_.clear();
  for (auto& waiter : waiters_) waiter = nullptr;
  waiting_since_.reset();
  warned_ = false;
}

// --- messages of a step

void DistributedSyncServer::handle(RegisterSyncParameters& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || group != ledger_->group()) return;
  recorder_.begun(group, generation, member, message.at);
  if (!parameters_.empty() && (!message.arena || message.arena->layout() != layout_))
    return fail_group({.kind = Fault::Kind::wrong_place, .member = member, .generation = generation}, nullptr,
                      message.arena ? "it registered another step's layout" : "it registered none");
  arenas_[member] = std::move(message.arena);
  arena_free_[member] = std::move(message.arena_free);
  ledger_->register_parameters(message.stamp, message.weight, std::move(message.required), actions_);
}

void DistributedSyncServer::handle(SubmitGradient& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || group != ledger_->group()) return;
  if (refuse_misfit(message)) return;
  if (message.parameter.value < parameters_.size()) {  // else the ledger objects
    recorder_.ready(generation, member, message.parameter, message.at);
    ready_[message.parameter.value * devices_.size() + member] = std::move(message.gradient.ready);
    if (member == first_member()) order_.push_back(message.parameter);
  }
  ledger_->submit(message.stamp, message.parameter, actions_);
}

// Whose order of gradients counts.
MemberIndex DistributedSyncServer::first_member() const {
  MemberIndex first = 0;
  while (ledger_->has_left(first)) ++first;
  return first;
}

bool DistributedSyncServer::refuse_misfit(const SubmitGradient& message) {
  const Array& gradient = message.gradient.gradient;
  if (message.parameter.value >= parameters_.size()) return false;
  const SyncParameter& parameter = parameters_[message.parameter.value];
  const auto& arena = arenas_[message.stamp.member];
  Fault fault{.member = message.stamp.member, .generation = message.stamp.generation, .parameter = message.parameter};
  if (gradient.shape() != parameter.shape) {
    fault.kind = Fault::Kind::wrong_shape;
    fail_group(fault, nullptr,
               fmt::format("shape {} in place of {}", to_string(gradient.shape()), to_string(parameter.shape)));
  } else if (gradient.dtype() != parameter.dtype) {
    fault.kind = Fault::Kind::wrong_dtype;
    fail_group(fault, nullptr,
               fmt::format("dtype {} in place of {}", to_string(gradient.dtype()), to_string(parameter.dtype)));
  } else if (arena && gradient.raw_data() != arena->gradient(message.parameter).raw_data()) {
    fault.kind = Fault::Kind::wrong_place;
    fail_group(fault, nullptr, fmt::format("parameter {}", names().parameter(message.parameter)));
  } else {
    return false;
  }
  return true;
}

void DistributedSyncServer::handle(CollectiveSync& message) {
  if (message.stamp.group != ledger_->group() || ledger_->fault())
    return message.waiter->release(nullptr, error_for(message.stamp.group));
  const MemberIndex member = message.stamp.member;
  if (waiters_[member]) {  // the ledger objects to a second one; the first stays to hear of it
    ledger_->collective_sync(message.stamp, actions_);
    perform_actions();
    return message.waiter->release(nullptr, error_for(message.stamp.group));
  }
  recorder_.backward_ended(message.stamp.generation, member, message.at);
  waiters_[member] = std::move(message.waiter);
  if (!waiting_since_) waiting_since_ = message.at;
  ledger_->collective_sync(message.stamp, actions_);
}

// --- failures and ends

// No question may stay without an answer, also if its device asks again before it has one.
void DistributedSyncServer::replace(std::shared_ptr<SyncWaiter>& place, std::shared_ptr<SyncWaiter> waiter,
                                    MemberIndex member) {
  if (const auto earlier = std::exchange(place, std::move(waiter)))
    earlier->release(nullptr, std::make_exception_ptr(SyncError(fmt::format(
                                  "[sync] {} asked again before it had its answer", to_string(devices_[member])))));
}

void DistributedSyncServer::handle(DeviceFailed& message) {
  if (message.stamp.group == ledger_->group())
    fail_group(
        {.kind = Fault::Kind::device_failed, .member = message.stamp.member, .generation = message.stamp.generation},
        message.error);
  message.waiter->release(round_, error_for(message.stamp.group));
}

void DistributedSyncServer::handle(Leave& message) {
  follows_[message.stamp.member] = message.follow;
  ledger_->leave(message.stamp, actions_);
  perform_actions();
  if (ledger_->all_left())
    for (MemberIndex member = 0; member < devices_.size(); ++member) serve_follower(member);
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
  replace(joiners_[message.member], message.waiter, message.member);
  if (!ledger_->join(message.member, message.group, message.last_step_applied, actions_)) {
    joiners_[message.member] = nullptr;
    std::exception_ptr error = error_for(ledger_->group());
    if (!error)
      error = std::make_exception_ptr(
          SyncError(fmt::format("[sync] {} asked for group {}, but group {} has not failed",
                                to_string(devices_[message.member]), message.group, ledger_->group())));
    return message.waiter->release(nullptr, error);
  }
  if (!waiting_since_) waiting_since_ = CollectiveTask::Clock::now();
}

void DistributedSyncServer::handle(SetBusy& message) { busy_[message.member] = std::move(message.activity); }

void DistributedSyncServer::handle(CheckDeadlines& message) {
  if (!waiting_since_) return;
  const auto waited = message.now - *waiting_since_;
  if (waited < options_.warn_after && waited < options_.fail_after) return;
  const Missing missing = ledger_->missing();
  const std::string text = missing_text(missing, ledger_->current_generation(), waited, names());
  if (waited < options_.fail_after) {
    if (!std::exchange(warned_, true)) options_.warn(text);
    return;
  }
  if (missing.joins.empty())
    return fail_group({.kind = Fault::Kind::deadline, .generation = ledger_->current_generation()}, nullptr, text);
  ledger_->abandon_joins();
  waiting_since_.reset();
  release_joiners(std::make_exception_ptr(SyncError(text)));
}

void DistributedSyncServer::handle(Close&) {
  ledger_->close(actions_);
  perform_actions();
  release_joiners(error_for(ledger_->group()));
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
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = {}};
  reduced.results.resize(devices_.size());
  AllReduceRequest request{.slices = {}, .ready = {}, .denominator = launch.denominator};
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    const Launch::Part part = launch.parts[member];
    if (!part.receives || (part.absent && !follows_[member])) continue;
    if (!part.contributes && !communicator_->enabled()) continue;  // nobody would write it
    reduced.results[member] =
        part.absent ? Array::empty({bucket_size(launch.places)}, launch.places.front().dtype, devices_[member])
                    : arenas_[member]->bucket(launch.places);
    request.slices.push_back({reduced.results[member], part.contributes});
    if (!part.required)
      request.ready.push_back(part.absent ? Event() : arena_free_[member]);
    else
      for (const GradientLayout::Place& place : launch.places)
        request.ready.push_back(std::move(ready_[place.parameter.value * devices_.size() + member]));
  }
  if (request.slices.empty()) return;
  const auto launched_at = CollectiveTask::Clock::now();  // before: another thread may finish it at once
  reduced.task = communicator_->all_reduce(std::move(request));
  for (const GradientLayout::Place& place : launch.places)
    recorder_.launched(launch.generation, place.parameter, reduced.task, launched_at);
  round_->reduced.push_back(std::move(reduced));
}

// At once after the first step, which went by a guess; then when the order has been another one for some steps, so that
// a graph that changes back and forth does not move memory each time.
void DistributedSyncServer::learn_layout() {
  constexpr int kPatience = 3;
  if (order_.empty()) return;
  if (layout_->flats().size() > 1)  // dtypes are kept apart
    std::ranges::stable_sort(order_, {}, [&](ParameterId id) { return parameters_[id.value].dtype; });
  const bool agrees = std::ranges::is_sorted(order_, {}, [&](ParameterId id) { return layout_->position_of(id); });
  layout_disagreements_ = agrees ? 0 : layout_disagreements_ + 1;
  if (agrees || (layout_learned_ && layout_disagreements_ < kPatience)) return;
  layout_learned_ = true;
  layout_disagreements_ = 0;
  std::vector<bool> seen(parameters_.size());
  for (const ParameterId id : order_) seen[id.value] = true;
  for (const GradientLayout::Place& place : layout_->places())
    if (!seen[place.parameter.value]) order_.push_back(place.parameter);
  auto learned = std::make_shared<const GradientLayout>(parameters_, order_);
  ledger_->set_layout(learned);
  const std::lock_guard lock(state_mutex_);
  layout_ = std::move(learned);
}

void DistributedSyncServer::perform(const Release& release) {
  round_->total_weight = release.total_weight;
  recorder_.released(release.generation, release.total_weight, CollectiveTask::Clock::now());
  learn_layout();
  const std::shared_ptr<const RoundResult> result = std::move(round_);
  auto waiters = waiters_;
  start_round();
  for (const auto& waiter : waiters)
    if (waiter) waiter->release(result);
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (waiters[member] || !ledger_->has_left(member) || !follows_[member]) continue;
    unfetched_[member].push_back(result);
    serve_follower(member);
  }
}

void DistributedSyncServer::perform(const Fail& failure) { announce(failure.fault, nullptr, {}); }

// The number counts even if copying the state fails: the devices then join the group after it.
void DistributedSyncServer::perform(const Reform& reform) {
  {
    const std::lock_guard lock(state_mutex_);
    group_number_ = reform.group;
    group_error_ = nullptr;
  }
  start_round();
  if (reformed_ && !reform.behind.empty()) reformed_(reform.ahead, reform.behind);
  failed_.store(false, std::memory_order_release);
  release_joiners(nullptr);
}

void DistributedSyncServer::release_joiners(const std::exception_ptr& error) {
  for (auto& joiner : joiners_)
    if (joiner) std::exchange(joiner, nullptr)->release(nullptr, error);
}

void DistributedSyncServer::fail_group(const Fault& fault, const std::exception_ptr& cause, const std::string& detail) {
  if (ledger_->fault()) return;
  std::vector<LedgerAction> announced_here;
  ledger_->fail(fault, announced_here);
  announce(fault, cause, detail);
}

// Every waiter of the incomplete generation gets the error, with what was launched of it so far.
void DistributedSyncServer::announce(const Fault& fault, const std::exception_ptr& cause, const std::string& detail) {
  const auto error = std::make_exception_ptr(SyncError(fault_text(fault, cause, detail, names())));
  {
    const std::lock_guard lock(state_mutex_);
    group_error_ = error;
  }
  failed_.store(true, std::memory_order_release);
  waiting_since_.reset();
  warned_ = false;
  for (auto& arena : arenas_) arena = nullptr;
  for (auto& waiter : waiters_)
    if (waiter) std::exchange(waiter, nullptr)->release(round_, error);
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
