// SPDX-License-Identifier: Apache-2.0
// What a device's replica holds besides gradients: its buffers at the end of a step, its digest, its copies after a
// failure.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <span>
#include <utility>

namespace tutti {

namespace {

void append_copies(const NamedTensors& from, std::vector<Array>& to) {
  for (const auto& [name, tensor] : from) to.push_back(tensor.array().copy());
}

/// Of all that it has by id: which rows they are in does not count.
Digest digest_of(const HashTable& table) {
  std::string text;
  for (const auto& [name, array] : table.save())
    text += fmt::format("{} {}\n", name, to_string(tutti::digest_of(array)));
  return tutti::digest_of(std::as_bytes(std::span(text)));
}

void copy_values(std::span<const Array> from, const NamedTensors& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    Array target = to[i].second.array();
    target.copy_from(from[i]);
  }
}

}  // namespace

// --- what is trained

// The group does not know it: each device would update it with its own gradient.
void SyncMember::refuse_unfrozen() const {
  for (const auto& [name, parameter] : frozen_)
    if (parameter.requires_grad())
      raise<SyncError>(
          "[sync] parameter \"{}\" on {} requires a gradient, which it did not when its replica was attached: attach "
          "what is trained later as requiring one, and leave it out of the optimizer until then",
          name, to_string(device_));
}

// A replica that was given on as a copy, or is gone, is not looked at.
void SyncMember::refuse_replaced() const {
  const std::string difference = shown_.difference();
  if (!difference.empty())
    raise<SyncError>(
        "[sync] the replica of {} is not what was attached: {}. The group knows what was there then: write new values "
        "into its tensors, or change the model before it is replicated",
        to_string(device_), difference);
}

// --- buffers

// Under double buffering a step's results arrive while the next forward writes them.
std::vector<SyncParameter> SyncMember::describe_buffers(const NamedTensors& buffers) const {
  const bool sent = server_.options().buffers != BufferPolicy::synchronised;
  if (sent && double_buffered() && !buffers.empty())
    raise<SyncError>(
        "[sync] buffer \"{}\" on {} cannot be made equal with Overlap::double_buffered, where the next forward writes "
        "it before the step has ended: choose BufferPolicy::synchronised",
        buffers.front().first, to_string(device_));
  std::vector<SyncParameter> description;
  for (const auto& [name, buffer] : buffers) {
    if (buffer.device() != device_)
      raise<SyncError>("[sync] buffer \"{}\" of the replica for {} lives on {}", name, to_string(device_),
                       to_string(buffer.device()));
    description.push_back({name, buffer.shape(), buffer.dtype()});
  }
  return description;
}

// They travel to a device that is behind.
void SyncMember::declare_frozen(const NamedTensors& frozen) {
  std::vector<SyncParameter> description;
  for (const auto& [name, parameter] : frozen) description.push_back({name, parameter.shape(), parameter.dtype()});
  server_.declare_frozen(index_, std::move(description));
}

std::unique_ptr<BufferShare> SyncMember::buffer_share() {
  if (buffers_.empty() || server_.options().buffers == BufferPolicy::synchronised) return nullptr;
  auto share = std::make_unique<BufferShare>();
  for (auto& [name, buffer] : buffers_) {
    if (!buffer.array().is_contiguous()) buffer.set_array(buffer.array().contiguous());
    buffer.array().count_write("the group's buffers");
    share->arrays.push_back(buffer.array());
  }
  share->ready = compute_stream(device_).record();
  share->examples = weight_ > 0.0;
  return share;
}

void SyncMember::install_buffers(const RoundResult& round) {
  if (round.followers_buffers.empty()) return;
  copy_values(round.followers_buffers[index_], buffers_);
}

// --- the optimizer

// Its updates are part of the step, so that it must be known before the first one, and stays.
void SyncMember::attach(Optimizer& optimizer) {
  if (std::ranges::find(optimizers_, &optimizer, &AttachedOptimizer::optimizer) != optimizers_.end())
    raise<SyncError>("[attach] {} has this optimizer already", to_string(device_));
  if (!attached_) raise<SyncError>("[attach] {} needs its replica before its optimizer", to_string(device_));
  refuse_replaced();
  refuse_foreign(optimizer);
  if (in_backward()) {
    if (generation_ > 0) raise<SyncError>("[attach] {} needs its optimizer before the first step", to_string(device_));
    if (!updates_) updates_ = std::make_unique<BackwardUpdates>(gradients_);
    updates_->add(optimizer, self_);
  }
  optimizers_.push_back({&optimizer, optimizer.lifetime()});
}

void SyncMember::refuse_foreign(const Optimizer& optimizer) const {
  for (std::size_t position = 0; position < optimizer.parameters().size(); ++position) {
    const Tensor& parameter = optimizer.parameters()[position];
    if (parameter.device() != device_)
      raise<SyncError>("[attach] parameter {} of the optimizer for {} lives on {}", position, to_string(device_),
                       to_string(parameter.device()));
    if (!parameter.requires_grad()) continue;
    const auto& attachment = parameter.gradient_slot().attachment;
    if (attachment && attachment->group == this) continue;
    raise<SyncError>(
        "[attach] parameter {} of the optimizer for {}, {} {}, is none of the replica's: it would be trained without "
        "the "
        "other devices. Make it a member of the module, or give it to an optimizer of its own",
        position, to_string(device_), to_string(parameter.dtype()), to_string(parameter.shape()));
  }
}

void SyncMember::require_optimizer(const char* operation) const {
  if (in_backward() && !updates_ && !parameters().empty())
    raise<SyncError>(
        "[{}] {} has no optimizer, which Overlap::in_backward needs: sync.attach(device, optimizer) before the first "
        "step",
        operation, to_string(device_));
  if (in_backward()) require_living_optimizers(operation);
}

void SyncMember::require_living_optimizers(const char* operation) const {
  for (const AttachedOptimizer& attached : optimizers_)
    if (attached.lifetime.expired())
      raise<SyncError>("[{}] an optimizer that was attached to {} has been destroyed", operation, to_string(device_));
}

// --- after a failure

std::shared_ptr<const ReplicaState> SyncMember::capture() const {
  auto state = std::make_shared<ReplicaState>();
  state->device = device_;
  state->group = server_.group_number();
  append_copies(parameters(), state->parameters);
  append_copies(frozen_, state->parameters);
  append_copies(buffers_, state->buffers);
  require_living_optimizers("rejoin");
  for (const AttachedOptimizer& attached : optimizers_) state->optimizers.push_back(attached.optimizer->state());
  for (const auto& [name, table] : tables_)
    state->tables.push_back(std::make_shared<const HashTable>(*table, table->weight().detach()));
  tutti::synchronize(device_);  // whoever restores it may do so on another device's stream
  return state;
}

bool SyncMember::torn() const {
  return std::ranges::any_of(optimizers_, [](const AttachedOptimizer& attached) {
    return attached.lifetime.expired() || attached.optimizer->torn();  // who knows what one that is gone has left
  });
}

void SyncMember::restore(const ReplicaState& state) {
  if (optimizers_.size() != state.optimizers.size())
    raise<SyncError>("[rejoin] {} has {} attached optimizers and {} has {}: their state could not be copied",
                     to_string(device_), optimizers_.size(), to_string(state.device), state.optimizers.size());
  require_living_optimizers("rejoin");
  if (!attached_) return;
  const std::span<const Array> values = state.parameters;
  if (values.size() != parameters().size() + frozen_.size())
    raise<SyncError>("[rejoin] {} has {} parameters and {} has {}", to_string(device_),
                     parameters().size() + frozen_.size(), to_string(state.device), values.size());
  restore_tables(state);
  copy_values(values.first(parameters().size()), parameters());
  copy_values(values.subspan(parameters().size()), frozen_);
  copy_values(state.buffers, buffers_);
  for (std::size_t i = 0; i < optimizers_.size(); ++i) optimizers_[i].optimizer->load_state(state.optimizers[i]);
}

void SyncMember::restore_tables(const ReplicaState& state) {
  if (tables_.size() != state.tables.size())
    raise<SyncError>("[rejoin] {} has {} hash tables and {} has {}", to_string(device_), tables_.size(),
                     to_string(state.device), state.tables.size());
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].second->copy_from(*state.tables[i]);
}

void SyncMember::restore_failed_step(const ReplicaState& state) {
  if (updates_) return restore(state);
  const bool sent = server_.options().buffers != BufferPolicy::synchronised;
  if (sent && attached_)
    copy_values(std::span(state.buffers).first(std::min(state.buffers.size(), buffers_.size())), buffers_);
}

// --- the check of the replicas

bool SyncMember::check_is_due() const {
  const std::int64_t every = server_.options().consistency_every;
  return every > 0 && (generation_ - 1) % every == 0;
}

void SyncMember::append_buffers(ReplicaDigest& digest) const {
  for (const auto& [name, tensor] : buffers_)
    digest.push_back({fmt::format("buffer \"{}\"", name), digest_of(tensor.array())});
}

ReplicaDigest SyncMember::digest() const {
  ReplicaDigest digest;
  for (const auto& [name, table] : tables_)
    digest.push_back({fmt::format("hash table \"{}\"", name), digest_of(*table)});
  for (const NamedTensors* tensors : {&parameters(), &frozen_})
    for (const auto& [name, tensor] : *tensors)
      digest.push_back({fmt::format("parameter \"{}\"", name), digest_of(tensor.array())});
  return digest;
}

void SyncMember::refuse_check() {
  if (left_ || phase_ == Phase::open)
    raise<SyncError>("[sync] {} can check its replica between steps and before it leaves only", to_string(device_));
  try {
    refuse_replaced();
  } catch (...) {  // the others wait for this device's answer
    fail(std::current_exception());
    throw;
  }
}

std::shared_ptr<SyncWaiter> SyncMember::check_replica() {
  refuse_check();
  join();
  server_.check_alive();
  join_gathers();
  auto waiter = std::make_shared<SyncWaiter>();
  ReplicaDigest held = digest();
  append_buffers(held);
  server_.check_replica({index_, group_number_, generation_ + 1}, std::move(held), waiter);
  return waiter;
}

}  // namespace tutti
