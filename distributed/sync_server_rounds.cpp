// SPDX-License-Identifier: Apache-2.0
// What the messages do. Everything here runs while the mailbox is drained: on one thread at a time.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

// These need no ledger. Opened by one of them it would know too few parameters: the deadlines are looked at from the
// beginning, however long a model takes to build.
bool may_precede_declarations(const SyncMessage& message) {
  return std::holds_alternative<CheckDeadlines>(message) || std::holds_alternative<SetBusy>(message) ||
         std::holds_alternative<std::unique_ptr<PostCollective>>(message);
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
    fail_group({.kind = Fault::Kind::engine_failed, .generation = ledger_ ? ledger_->current_generation() : 0},
               std::current_exception());
    release_joiners(error_for(ledger_->group()));
  }
}

void DistributedSyncServer::open_ledger() {
  const std::lock_guard lock(state_mutex_);
  ledger_ = std::make_unique<SyncLedger>(
      SyncLedger::Configuration{.members = static_cast<std::uint32_t>(devices_.size()),
                                .parameters = static_cast<std::uint32_t>(parameters_.size()),
                                .reduction = options_.reduction,
                                .absent = options_.absent});
  gradients_.resize(parameters_.size());
  waiters_.resize(devices_.size());
  start_round();
}

void DistributedSyncServer::start_round() {
  round_ = std::make_shared<RoundResult>();
  round_->generation = ledger_->current_generation();
  for (auto& waiter : waiters_) waiter = nullptr;
  waiting_since_.reset();
  warned_ = false;
}

// --- messages of a step

void DistributedSyncServer::handle(RegisterSyncParameters& message) {
  if (message.stamp.group == ledger_->group() && !ledger_->fault())
    recorder_.begun(message.stamp.group, message.stamp.generation, message.stamp.member, message.at);
  ledger_->register_parameters(message.stamp, message.weight, std::move(message.required), actions_);
}

void DistributedSyncServer::handle(SubmitGradient& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || group != ledger_->group()) return;
  if (refuse_misfit(message)) return;
  if (message.parameter.value < gradients_.size()) {  // else the ledger objects
    recorder_.ready(generation, member, message.parameter, message.at);
    auto& gradients = gradients_[message.parameter.value];
    gradients.resize(devices_.size());
    gradients[member] = std::move(message.gradient);
  }
  ledger_->submit(message.stamp, message.parameter, actions_);
}

bool DistributedSyncServer::refuse_misfit(const SubmitGradient& message) {
  const Array& gradient = message.gradient.gradient;
  if (!gradient.defined() || message.parameter.value >= parameters_.size()) return false;
  const SyncParameter& parameter = parameters_[message.parameter.value];
  Fault fault{.member = message.stamp.member, .generation = message.stamp.generation, .parameter = message.parameter};
  if (gradient.shape() != parameter.shape) {
    fault.kind = Fault::Kind::wrong_shape;
    fail_group(fault, nullptr,
               fmt::format("shape {} in place of {}", to_string(gradient.shape()), to_string(parameter.shape)));
  } else if (gradient.dtype() != parameter.dtype) {
    fault.kind = Fault::Kind::wrong_dtype;
    fail_group(fault, nullptr,
               fmt::format("dtype {} in place of {}", to_string(gradient.dtype()), to_string(parameter.dtype)));
  } else {
    return false;
  }
  return true;
}

void DistributedSyncServer::handle(CollectiveSync& message) {
  if (message.stamp.group != ledger_->group() || ledger_->fault())
    return message.waiter->release(nullptr, error_for(message.stamp.group));
  recorder_.backward_ended(message.stamp.generation, message.stamp.member, message.at);
  waiters_[message.stamp.member] = std::move(message.waiter);
  if (!waiting_since_) waiting_since_ = message.at;
  ledger_->collective_sync(message.stamp, actions_);
}

// --- failures and ends

void DistributedSyncServer::handle(DeviceFailed& message) {
  if (message.stamp.group == ledger_->group())
    fail_group(
        {.kind = Fault::Kind::device_failed, .member = message.stamp.member, .generation = message.stamp.generation},
        message.error);
  message.waiter->release(round_);
}

void DistributedSyncServer::handle(Leave& message) {
  follows_[message.stamp.member] = message.follow;
  ledger_->leave(message.stamp, actions_);
  perform_actions();
  if (ledger_->all_left())
    for (MemberIndex member = 0; member < devices_.size(); ++member) serve_follower(member);
}

void DistributedSyncServer::handle(NextResult& message) {
  followers_[message.member] = std::move(message.waiter);
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
  joiners_[message.member] = message.waiter;
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
  check_collective_deadline(message.now);
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
  const SyncParameter& parameter = parameters_[launch.parameter.value];
  auto& gradients = gradients_[launch.parameter.value];
  RoundResult::Reduced reduced{.parameter = launch.parameter, .task = nullptr, .results = {}};
  reduced.results.resize(devices_.size());
  AllReduceRequest request{.slices = {}, .denominator = launch.denominator};
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (!ledger_->receives(member, launch.parameter)) continue;
    if (ledger_->has_left(member) && !follows_[member]) continue;
    GradientRef gradient = std::exchange(gradients[member], {});
    const bool contributes = ledger_->contributes(member, launch.parameter) && gradient.gradient.defined();
    if (!contributes) gradient = {Array::empty(parameter.shape, parameter.dtype, devices_[member]), Event{}};
    reduced.results[member] = gradient.gradient;
    request.slices.push_back({std::move(gradient.gradient), contributes, std::move(gradient.ready)});
  }
  const auto launched_at = CollectiveTask::Clock::now();  // before: another thread may finish it at once
  reduced.task = communicator_->all_reduce(std::move(request));
  recorder_.launched(launch.generation, launch.parameter, reduced.task, launched_at);
  round_->reduced.push_back(std::move(reduced));
}

void DistributedSyncServer::perform(const Release& release) {
  round_->total_weight = release.total_weight;
  recorder_.released(release.generation, release.total_weight, CollectiveTask::Clock::now());
  if (release.total_weight == 0.0)
    for (auto& gradients : gradients_) gradients.clear();  // nothing was launched, so nothing took them
  const std::shared_ptr<const RoundResult> result = std::move(round_);
  auto waiters = waiters_;
  start_round();
  for (const auto& waiter : waiters)
    if (waiter) waiter->release(result);
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (!ledger_->has_left(member) || !follows_[member]) continue;
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
  if (!ledger_) open_ledger();
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
  for (auto& gradients : gradients_) gradients.clear();
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
