// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/autodiff/tensor_access.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti {

SyncMember::SyncMember(DistributedSyncServer& server, MemberIndex index, Device device, GradientReduction reduction)
    : server_(server), index_(index), device_(device), reduction_(reduction) {}

SyncMember::~SyncMember() {
  for (const auto& [name, parameter] : parameters_) {
    GradientSlot& slot = parameter.gradient_slot();
    if (slot.attachment && slot.attachment->group == this) slot.attachment = nullptr;
  }
}

void SyncMember::attach(Module& replica) {
  if (!parameters_.empty()) raise<SyncError>("[sync] {} has a replica already", to_string(device_));
  if (generation_ > 0) raise<SyncError>("[sync] attach {} before the first step", to_string(device_));
  NamedTensors parameters = replica.named_parameters();
  std::erase_if(parameters, [](const auto& named) { return !named.second.requires_grad(); });
  for (const auto& [name, parameter] : parameters) {
    if (parameter.device() != device_)
      raise<SyncError>("[sync] parameter \"{}\" of the replica for {} lives on {}", name, to_string(device_),
                       to_string(parameter.device()));
    if (parameter.gradient_slot().attachment)
      raise<SyncError>("[sync] parameter \"{}\" on {} belongs to a group already", name, to_string(device_));
  }
  std::vector<SyncParameter> description;
  for (const auto& [name, parameter] : parameters) description.push_back({name, parameter.shape(), parameter.dtype()});
  server_.declare_parameters(index_, std::move(description));
  parameters_ = std::move(parameters);
  buffers_ = replica.named_buffers();
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    GradientSlot& slot = parameters_[id].second.gradient_slot();
    slot.attachment = std::make_shared<const Attachment>(Attachment{ParameterId{id}, parameters_[id].first, this});
    slot.pending = weak_from_this();
  }
}

void SyncMember::copy_state_from(const SyncMember& ahead) {
  const auto copy = [](const NamedTensors& from, const NamedTensors& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      Array target = to[i].second.array();
      target.copy_from(from[i].second.array());
    }
  };
  copy(ahead.parameters_, parameters_);
  copy(ahead.buffers_, buffers_);
  if (optimizer_ != nullptr && ahead.optimizer_ != nullptr) optimizer_->load_state(ahead.optimizer_->state());
}

void SyncMember::begin_step(double weight) {
  if (left()) raise<SyncError>("[sync] {} has left: it has no more steps", to_string(device_));
  if (phase_ == Phase::open)
    raise<SyncError>("[sync] {} opened a step while its step {} is still open", to_string(device_), generation_);
  if (!(weight >= 0.0) || weight > std::numeric_limits<double>::max())
    raise<SyncError>("[sync] weight {} of {} is not a finite number >= 0", weight, to_string(device_));
  join();
  note_driver();
  server_.check_alive();
  ++generation_;
  phase_ = Phase::open;
  weight_ = 0.0;
  failed_ = false;
}

void SyncMember::backward(const Tensor& loss, double weight, BackwardOptions options) {
  if (phase_ != Phase::open)
    raise<SyncError>("[sync] step {} of {} has had its synchronised backward: open the next step", generation_,
                     to_string(device_));
  if (options.create_graph)
    raise<AutodiffError>(
        "[step.backward] create_graph cannot be combined with synchronisation: use grad(), whose "
        "gradients are local and differentiable");
  weight_ += weight;
  // Exactly 0 sends null gradients; an unweighted reduction counts devices, not examples.
  options.scale *= weighted() || weight == 0.0 ? weight : 1.0;
  options.observer = this;
  options.group = this;
  tutti::backward(loss, options);
}

void SyncMember::synchronize() {
  if (phase_ != Phase::open)
    raise<SyncError>("[sync] step {} of {} is posted already", generation_, to_string(device_));
  on_backward_begin(device_, {});
  on_backward_end(device_);
}

// What is required: the parameters in the graph, and those whose local accumulation was never reduced. The latter are
// final already.
void SyncMember::on_backward_begin(Device device, std::span<const ParameterUse> uses) {
  if (!uses.empty() && device != device_)
    raise<SyncError>("[sync] the loss of {}'s step was computed on {}", to_string(device_), to_string(device));
  std::vector<bool> in_graph(parameters_.size(), false);
  for (const ParameterUse& use : uses) in_graph[use.id.value] = true;
  std::vector<ParameterId> ids;
  ids.reserve(parameters_.size());
  std::vector<ParameterId> accumulated;
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    const bool local = parameters_[id].second.gradient_slot().state == GradientState::local;
    if (in_graph[id] || local) ids.push_back({id});
    if (local && !in_graph[id]) accumulated.push_back({id});
  }
  if (!required_ || !std::ranges::equal(required_->parameters(), ids))
    required_ = std::make_shared<const RequiredSet>(std::move(ids));
  server_.register_parameters(stamp(), weight_, required_);
  if (accumulated.empty()) return;
  for (const ParameterId id : accumulated) {  // reduced in place: a gradient that the user holds keeps its values
    Array& gradient = parameters_[id.value].second.gradient_slot().gradient;
    gradient = take_exclusive(Tensor(std::move(gradient)));
  }
  const Event ready = compute_stream(device_).record();
  for (const ParameterId id : accumulated)
    server_.submit(stamp(), id, {parameters_[id.value].second.gradient_slot().gradient, ready});
}

void SyncMember::on_gradient_final(Device, ParameterId id, GradientRef gradient) {
  server_.submit(stamp(), id, std::move(gradient));
}

void SyncMember::on_backward_end(Device) {
  waiter_ = server_.collective_sync(stamp());
  phase_ = Phase::posted;
  posted_generation_.store(generation_, std::memory_order_release);
}

void SyncMember::on_backward_failed(Device, std::exception_ptr error) { fail(std::move(error)); }

void SyncMember::join() {
  if (phase_ != Phase::posted) return;
  if (!waiter_->done()) refuse_waiting_for_own_thread();
  server_.await(*waiter_);
  const std::shared_ptr<SyncWaiter> waiter = std::exchange(waiter_, nullptr);
  phase_ = Phase::idle;
  if (waiter->error()) {
    failed_ = true;
    wait_for_tasks(waiter->result().get());
    invalidate_gradients();
    std::rethrow_exception(waiter->error());
  }
  try {
    install(*waiter->result());
  } catch (...) {
    wait_for_tasks(waiter->result().get());
    invalidate_gradients();
    fail(std::current_exception());
    throw;
  }
}

void SyncMember::install(const RoundResult& round) {
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (const auto& reduced : round.reduced)
    if (reduced.results[index_].defined()) tasks.push_back(reduced.task);
  server_.communicator().join(device_, tasks);
  if (round.total_weight == 0.0) {
    for (const ParameterId id : required_ ? required_->parameters() : std::span<const ParameterId>{})
      parameters_[id.value].second.gradient_slot().state = GradientState::undefined;
  }
  for (const auto& reduced : round.reduced) {
    if (!reduced.results[index_].defined()) continue;
    GradientSlot& slot = parameters_[reduced.parameter.value].second.gradient_slot();
    slot.gradient = reduced.results[index_];
    slot.state = GradientState::reduced;
  }
  joined_generation_ = round.generation;
  total_weight_ = round.total_weight;
  server_.note_joined(stamp());
}

void SyncMember::refuse_waiting_for_own_thread() const {
  for (const SyncMember* peer : peers_) {
    if (peer == this || peer->left() || !peer->driven_by_this_thread()) continue;
    if (peer->group_number_ == group_number_ && peer->posted_generation() >= generation_) continue;
    raise<SyncError>(
        "[sync] {} would wait for {} in step {}, which this same thread drives and has not posted: call backward_async "
        "on "
        "every device of a thread, then join_all",
        to_string(device_), to_string(peer->device()), generation_);
  }
}

void SyncMember::wait_for_tasks(const RoundResult* round) noexcept {
  if (round == nullptr) return;
  for (const auto& reduced : round->reduced)
    if (reduced.results[index_].defined() || !reduced.task->finished()) try {
        const std::shared_ptr<CollectiveTask> task[] = {reduced.task};
        server_.communicator().join(device_, task);
      } catch (...) {
        // the group has failed already; only that the task ended matters here
      }
}

void SyncMember::invalidate_gradients() {
  for (const auto& [name, parameter] : parameters_) parameter.gradient_slot().state = GradientState::undefined;
}

void SyncMember::fail(std::exception_ptr error) noexcept {
  if (failed_) return;
  failed_ = true;
  const auto acknowledged = server_.device_failed(stamp(), std::move(error));
  acknowledged->wait();
  wait_for_tasks(acknowledged->result().get());
  phase_ = Phase::idle;
  waiter_ = nullptr;
  invalidate_gradients();
}

void SyncMember::end_step(bool unwinding) noexcept {
  if (unwinding)
    fail(std::make_exception_ptr(SyncError("its step was unwound by an exception")));
  else if (phase_ == Phase::open)
    fail(std::make_exception_ptr(
        SyncError("its step ended without a synchronised backward (call step.synchronize() when there is no loss)")));
}

void SyncMember::leave(bool follow) {
  join();
  if (phase_ == Phase::open)
    raise<SyncError>("[sync] {} cannot leave inside its step {}", to_string(device_), generation_);
  if (left_.exchange(true, std::memory_order_acq_rel)) return;
  server_.leave({index_, group_number_, generation_ + 1}, follow);
}

bool SyncMember::follow() {
  if (!left()) raise<SyncError>("[sync] {} follows only after leave(device, Follow::yes)", to_string(device_));
  const std::shared_ptr<SyncWaiter> waiter = server_.next_result(index_);
  waiter->wait();
  if (waiter->error()) {
    wait_for_tasks(waiter->result().get());
    std::rethrow_exception(waiter->error());
  }
  if (!waiter->result()) return false;
  generation_ = waiter->result()->generation;
  install(*waiter->result());
  return true;
}

std::shared_ptr<SyncWaiter> SyncMember::request_rejoin(std::int64_t last_step_applied) {
  if (phase_ == Phase::open) raise<SyncError>("[sync] {} cannot rejoin inside its step", to_string(device_));
  note_driver();
  return server_.join_group(index_, server_.group_number() + 1, last_step_applied);
}

void SyncMember::finish_rejoin(SyncWaiter& waiter) {
  waiter.wait();
  if (waiter.error()) std::rethrow_exception(waiter.error());
  group_number_ = server_.group_number();
  generation_ = 0;
  posted_generation_.store(0, std::memory_order_release);
  phase_ = Phase::idle;
  failed_ = false;
  waiter_ = nullptr;
  joined_generation_ = 0;
  required_ = nullptr;
  invalidate_gradients();
}

double SyncMember::total_weight() const {
  if (joined_generation_ != generation_)
    raise<SyncError>("[sync] the total weight of step {} is known after join", generation_);
  return total_weight_;
}

}  // namespace tutti
