// SPDX-License-Identifier: Apache-2.0
// What the messages of a step do, and what the ledger decides. Everything here runs while the mailbox is drained: on
// one thread at a time. Failures and ends: sync_server_failures.cpp.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_compression.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace tutti {

namespace {

// These need no ledger, and may come long before the first step: the deadlines are looked at from the beginning,
// however long a model takes to build.
bool may_precede_declarations(const SyncMessage& message) {
  return std::holds_alternative<CheckDeadlines>(message) || std::holds_alternative<SetBusy>(message) ||
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
  make_room_for_parameters();
  waiters_.resize(devices_.size());
  buffers_.resize(devices_.size());
  start_round();
}

void DistributedSyncServer::start_round() {
  round_ = std::make_shared<RoundResult>();
  round_->generation = ledger_->current_generation();
  round_->layout = layout_;
  launched_.clear();
  order_.clear();
  rows_.clear();
  for (auto& waiter : waiters_) waiter = nullptr;
  for (BufferShare& share : buffers_) share = {};
  waiting_since_.reset();
  warned_ = false;
}

// --- messages of a step

void DistributedSyncServer::handle(RegisterSyncParameters& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || group != ledger_->group()) return;
  stepped_ = true;
  recorder_.begun(group, generation, member, message.at);
  if (!parameters_.empty() && !scatters() && (!message.arena || message.arena->layout() != layout_))
    return fail_group({.kind = Fault::Kind::wrong_place, .member = member, .generation = generation}, nullptr,
                      message.arena ? "it registered another step's layout" : "it registered none");
  arenas_[member] = std::move(message.arena);
  arena_free_[member] = std::move(message.arena_free);
  ledger_->register_parameters(message.stamp, message.weight, std::move(message.required), actions_, message.passes_on);
}

void DistributedSyncServer::handle(SubmitGradient& message) {
  const auto [member, group, generation] = message.stamp;
  if (ledger_->fault() || group != ledger_->group()) return;
  if (refuse_misfit(message)) return;
  if (message.parameter.value < parameters_.size()) {  // else the ledger objects
    recorder_.ready(generation, member, message.parameter, message.at);
    const std::size_t cell = message.parameter.value * devices_.size() + member;
    ready_[cell] = std::move(message.ready);
    if (parameters_[message.parameter.value].sparse) rows_[cell] = std::move(message.elsewhere->rows);
    if (scatters()) submitted_[cell] = std::move(message.elsewhere->gradient);
    if (member == first_member()) order_.push_back(message.parameter);
  }
  ledger_->submit(message.stamp, message.parameter, actions_);
}

// Whose order of gradients counts; any, when all have left and what comes is an error.
MemberIndex DistributedSyncServer::first_member() const {
  MemberIndex first = 0;
  while (first + 1 < devices_.size() && ledger_->has_left(first)) ++first;
  return first;
}

bool DistributedSyncServer::refuse_misfit(const SubmitGradient& message) {
  if (!message.elsewhere || message.parameter.value >= parameters_.size()) return false;
  const Array& gradient = message.elsewhere->gradient;
  const SyncParameter& parameter = parameters_[message.parameter.value];
  if (parameter.sparse || !message.elsewhere->rows.empty()) return refuse_sparse_misfit(message);
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
  } else if (arena && !arena->is_place_of(message.parameter, gradient)) {
    fault.kind = Fault::Kind::wrong_place;
    fail_group(fault, nullptr, fmt::format("parameter {}", names().parameter(message.parameter)));
  } else {
    return false;
  }
  return true;
}

void DistributedSyncServer::handle(CollectiveSync& message) {
  if (message.stamp.group != ledger_->group()) return message.waiter->release(nullptr, error_for(message.stamp.group));
  // With what was launched before the failure: it may still be reducing this device's gradients.
  if (ledger_->fault()) return message.waiter->release(round_, error_for(message.stamp.group));
  const MemberIndex member = message.stamp.member;
  if (waiters_[member]) {  // the ledger objects to a second one; the first stays to hear of it
    ledger_->collective_sync(message.stamp, actions_);
    perform_actions();
    return message.waiter->release(nullptr, error_for(message.stamp.group));
  }
  recorder_.backward_ended(message.stamp.generation, member, message.at);
  waiters_[member] = std::move(message.waiter);
  if (message.buffers) buffers_[member] = std::move(*message.buffers);
  if (!waiting_since_) waiting_since_ = message.at;
  ledger_->collective_sync(message.stamp, actions_);
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
  if (launch.places.front().sparse) return perform_sparse(launch);
  if (scatters()) return scatter(launch);
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = {}};
  reduced.results.resize(devices_.size());
  AllReduceRequest request{.slices = {},
                           .ready = {},
                           .denominator = launch.denominator,
                           .parameter = parameters_[launch.places.front().parameter.value].name};
  request.slices.reserve(devices_.size());
  const auto wait_for = [&](Event&& event) {
    if (event.recorded()) request.ready.push_back(std::move(event));
  };
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    const Launch::Part part = launch.parts[member];
    if (!part.receives || (part.absent && !follows_[member])) continue;
    if (!part.contributes && !communicator_->enabled()) continue;  // nobody would write it
    reduced.results[member] =
        part.absent ? Array::empty({bucket_size(launch.places)}, launch.places.front().dtype, devices_[member])
                    : arenas_[member]->bucket(launch.places);
    request.slices.push_back({reduced.results[member], part.contributes, !part.absent});
    if (!part.required && !part.absent)
      wait_for(Event(arena_free_[member]));
    else if (part.required)
      for (const GradientLayout::Place& place : launch.places)
        wait_for(std::move(ready_[place.parameter.value * devices_.size() + member]));
  }
  if (request.slices.empty()) return;
  const auto launched_at = CollectiveTask::Clock::now();  // before: another thread may finish it at once
  reduced.task = reduce(launch, reduced.results, std::move(request));
  recorder_.launched(launch.generation, launch.places, reduced.task, launched_at);
  if (options_.overlap == Overlap::in_backward) launched_.append(reduced);
  round_->reduced.push_back(std::move(reduced));
}

// At once after the first step, which went by a guess; then when the order has been another one for some steps, so that
// a graph that changes back and forth does not move memory each time. Never while anything is sharded. With double
// buffering only the first time: devices are in their next step by now, and a replay writes to the places it knows.
void DistributedSyncServer::learn_layout() {
  constexpr int kPatience = 3;
  if (order_.empty() || shards_) return;
  GradientLayout::sort(order_, parameters_);
  const bool agrees = std::ranges::is_sorted(order_, {}, [&](ParameterId id) { return layout_->position_of(id); });
  layout_disagreements_ = agrees ? 0 : layout_disagreements_ + 1;
  const bool guessed = !std::exchange(layout_learned_, true);
  const bool may_follow = options_.overlap != Overlap::double_buffered && layout_disagreements_ >= kPatience;
  if (agrees || !(guessed || may_follow)) return;
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

// Those who have posted wait for it before they run their next forward; nobody still runs this step's.
void DistributedSyncServer::make_buffers_equal() {
  if (buffer_descriptions_.empty() || !communicator_->enabled()) return;
  round_->followers_buffers.resize(devices_.size());
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (waiters_[member] || !follows_[member] || options_.buffers == BufferPolicy::synchronised) continue;
    auto& arrays = round_->followers_buffers[member];
    for (const SyncParameter& buffer : buffer_descriptions_)
      arrays.push_back(Array::empty(buffer.shape, buffer.dtype, devices_[member]));
    buffers_[member] = {.arrays = arrays, .ready = compute_stream(devices_[member]).record(), .reads = false};
  }
  for (CollectiveRequest& request : plan_buffers(options_.buffers, buffers_))
    round_->buffer_tasks.push_back(communicator_->collective(std::move(request)));
}

void DistributedSyncServer::perform(const Release& release) {
  round_->total_weight = release.total_weight;
  if (options_.compression) options_.compression->commit();
  if (release.total_weight == 0.0)
    for (Array& gradient : submitted_) gradient = Array();  // nothing took them
  recorder_.released(release.generation, release.total_weight, communicator_->enabled(), CollectiveTask::Clock::now());
  learn_layout();
  make_buffers_equal();
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

}  // namespace tutti
