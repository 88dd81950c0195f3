// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/replica.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/hash_embedding.h>

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

std::vector<SyncParameter> described(const NamedTensors& tensors) {
  std::vector<SyncParameter> description;
  for (const auto& [name, tensor] : tensors) description.push_back({name, tensor.shape(), tensor.dtype()});
  return description;
}

std::size_t arenas_for(const MemberPlace& place) {
  if (place.server.scatters()) return 0;
  return place.double_buffered() ? 2 : 1;
}

}  // namespace

Replica::Replica(const MemberPlace& place)
    : place_(place), gradients_(place.device, arenas_for(place), [place](std::int64_t elements, DType dtype) {
        return place.server.communicator().gradient_memory(elements, dtype, place.device);
      }) {}

// --- what is trained

void Replica::attach(Module& replica, const void* owner, const std::weak_ptr<PendingGradients>& pending) {
  NamedTensors parameters = replica.named_parameters();
  NamedTensors frozen;
  std::erase_if(parameters, [&](const auto& named) {
    if (!named.second.requires_grad()) frozen.push_back(named);
    return !named.second.requires_grad();
  });
  std::vector<SyncParameter> description = describe_parameters(parameters);
  NamedTensors buffers = replica.named_buffers();
  std::vector<SyncParameter> buffer_description = describe_buffers(buffers);
  // First: a refusal leaves nothing declared.
  place_.server.declare_parameters(place_.index, std::move(description));
  place_.server.declare_buffers(place_.index, std::move(buffer_description));
  buffers_ = std::move(buffers);
  tables_ = sparse_parameters(replica);
  place_.server.declare_frozen(place_.index, described(frozen));  // they travel to a device that is behind
  gradients_.attach(std::move(parameters), owner, pending);
  shown_ = ShownMembers(replica);
  frozen_ = std::move(frozen);
  attached_ = true;
}

std::vector<SyncParameter> Replica::describe_parameters(const NamedTensors& parameters) const {
  std::vector<SyncParameter> description;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.device() != place_.device)
      raise<SyncError>("[sync] parameter \"{}\" of the replica for {} lives on {}", name, place_.name(),
                       to_string(parameter.device()));
    if (parameter.gradient_slot().attachment)
      raise<SyncError>("[sync] parameter \"{}\" on {} belongs to a group already", name, place_.name());
    description.push_back({name, parameter.shape(), parameter.dtype(), parameter.has_sparse_grad()});
  }
  return description;
}

void Replica::require(const char* operation) const {
  if (!attached_ && place_.server.has_replicas())
    raise<SyncError>("[{}] {} has no replica: attach one before the first step, as other devices did", operation,
                     place_.name());
}

// The group does not know it: each device would update it with its own gradient.
void Replica::refuse_unfrozen() const {
  for (const auto& [name, parameter] : frozen_)
    if (parameter.requires_grad())
      raise<SyncError>(
          "[sync] parameter \"{}\" on {} requires a gradient, which it did not when its replica was attached: attach "
          "what is trained later as requiring one, and leave it out of the optimizer until then",
          name, place_.name());
}

// A replica that was given on as a copy, or is gone, is not looked at.
void Replica::refuse_replaced() const {
  const std::string difference = shown_.difference();
  if (!difference.empty())
    raise<SyncError>(
        "[sync] the replica of {} is not what was attached: {}. The group knows what was there then: write new values "
        "into its tensors, or change the model before it is replicated",
        place_.name(), difference);
}

// --- buffers

// Under double buffering a step's results arrive while the next forward writes them.
std::vector<SyncParameter> Replica::describe_buffers(const NamedTensors& buffers) const {
  if (sends_buffers() && place_.double_buffered() && !buffers.empty())
    raise<SyncError>(
        "[sync] buffer \"{}\" on {} cannot be made equal with Overlap::double_buffered, where the next forward writes "
        "it before the step has ended: choose BufferPolicy::synchronised",
        buffers.front().first, place_.name());
  for (const auto& [name, buffer] : buffers)
    if (buffer.device() != place_.device)
      raise<SyncError>("[sync] buffer \"{}\" of the replica for {} lives on {}", name, place_.name(),
                       to_string(buffer.device()));
  return described(buffers);
}

std::unique_ptr<BufferShare> Replica::buffer_share(bool has_examples) {
  if (buffers_.empty() || !sends_buffers()) return nullptr;
  auto share = std::make_unique<BufferShare>();
  for (auto& [name, buffer] : buffers_) {
    if (!buffer.array().is_contiguous()) buffer.set_array(buffer.array().contiguous());
    buffer.array().count_write("the group's buffers");
    share->arrays.push_back(buffer.array());
  }
  share->ready = compute_stream(place_.device).record();
  share->examples = has_examples;
  return share;
}

void Replica::install_buffers(const RoundResult& round) {
  if (round.followers_buffers.empty()) return;
  copy_values(round.followers_buffers[place_.index], buffers_);
}

// --- the optimizer

void Replica::refuse_optimizer(const Optimizer& optimizer) const {
  if (std::ranges::find(optimizers_, &optimizer, &AttachedOptimizer::optimizer) != optimizers_.end())
    raise<SyncError>("[attach] {} has this optimizer already", place_.name());
  if (!attached_) raise<SyncError>("[attach] {} needs its replica before its optimizer", place_.name());
  refuse_replaced();
  refuse_foreign(optimizer);
}

void Replica::attach(Optimizer& optimizer) { optimizers_.push_back({&optimizer, optimizer.lifetime()}); }

void Replica::refuse_foreign(const Optimizer& optimizer) const {
  for (std::size_t position = 0; position < optimizer.parameters().size(); ++position) {
    const Tensor& parameter = optimizer.parameters()[position];
    if (parameter.device() != place_.device)
      raise<SyncError>("[attach] parameter {} of the optimizer for {} lives on {}", position, place_.name(),
                       to_string(parameter.device()));
    if (!parameter.requires_grad() || gradients_.owns(parameter)) continue;
    raise<SyncError>(
        "[attach] parameter {} of the optimizer for {}, {} {}, is none of the replica's: it would be trained without "
        "the other devices. Make it a member of the module, or give it to an optimizer of its own",
        position, place_.name(), to_string(parameter.dtype()), to_string(parameter.shape()));
  }
}

void Replica::require_living_optimizers(const char* operation) const {
  for (const AttachedOptimizer& attached : optimizers_)
    if (attached.lifetime.expired())
      raise<SyncError>("[{}] an optimizer that was attached to {} has been destroyed", operation, place_.name());
}

// --- after a failure

std::shared_ptr<const ReplicaState> Replica::capture() const {
  auto state = std::make_shared<ReplicaState>();
  state->holder = place_.name();
  state->group = place_.server.group_number();
  append_copies(parameters(), state->parameters);
  append_copies(frozen_, state->parameters);
  append_copies(buffers_, state->buffers);
  require_living_optimizers("rejoin");
  for (const AttachedOptimizer& attached : optimizers_) state->optimizers.push_back(attached.optimizer->state());
  for (const auto& [name, table] : tables_)
    state->tables.push_back(std::make_shared<const HashTable>(*table, table->weight().detach()));
  tutti::synchronize(place_.device);  // whoever restores it may do so on another device's stream
  return state;
}

bool Replica::is_torn() const {
  return std::ranges::any_of(optimizers_, [](const AttachedOptimizer& attached) {
    return attached.lifetime.expired() || attached.optimizer->torn();  // who knows what one that is gone has left
  });
}

void Replica::restore(const ReplicaState& state) {
  if (optimizers_.size() != state.optimizers.size())
    raise<SyncError>("[rejoin] {} has {} attached optimizers and {} has {}: their state could not be copied",
                     place_.name(), optimizers_.size(), state.holder, state.optimizers.size());
  require_living_optimizers("rejoin");
  if (!attached_) return;
  const std::span<const Array> values = state.parameters;
  if (values.size() != parameters().size() + frozen_.size())
    raise<SyncError>("[rejoin] {} has {} parameters and {} has {}", place_.name(), parameters().size() + frozen_.size(),
                     state.holder, values.size());
  restore_tables(state);
  copy_values(values.first(parameters().size()), parameters());
  copy_values(values.subspan(parameters().size()), frozen_);
  copy_values(state.buffers, buffers_);
  for (std::size_t i = 0; i < optimizers_.size(); ++i) optimizers_[i].optimizer->load_state(state.optimizers[i]);
}

void Replica::restore_tables(const ReplicaState& state) {
  if (tables_.size() != state.tables.size())
    raise<SyncError>("[rejoin] {} has {} hash tables and {} has {}", place_.name(), tables_.size(), state.holder,
                     state.tables.size());
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].second->copy_from(*state.tables[i]);
}

void Replica::restore_buffers(const ReplicaState& state) {
  if (!sends_buffers() || !attached_) return;
  copy_values(std::span(state.buffers).first(std::min(state.buffers.size(), buffers_.size())), buffers_);
}

// --- the check of the replicas

void Replica::append_buffers(ReplicaDigest& digest) const {
  for (const auto& [name, tensor] : buffers_)
    digest.push_back({fmt::format("buffer \"{}\"", name), digest_of(tensor.array())});
}

ReplicaDigest Replica::digest() const {
  ReplicaDigest digest;
  for (const auto& [name, table] : tables_)
    digest.push_back({fmt::format("hash table \"{}\"", name), digest_of(*table)});
  for (const NamedTensors* tensors : {&parameters(), &frozen_})
    for (const auto& [name, tensor] : *tensors)
      digest.push_back({fmt::format("parameter \"{}\"", name), digest_of(tensor.array())});
  return digest;
}

}  // namespace tutti
