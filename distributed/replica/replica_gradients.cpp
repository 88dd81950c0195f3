// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/replica/replica_gradients.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <utility>

namespace tutti {

ReplicaGradients::~ReplicaGradients() {
  for (const auto& [name, parameter] : parameters_) {
    GradientSlot& slot = parameter.gradient_slot();
    if (!slot.attachment || slot.attachment->owner != owner_) continue;
    slot.attachment = nullptr;
    slot.destination = Array();
  }
}

void ReplicaGradients::attach(NamedTensors parameters, const void* owner,
                              const std::weak_ptr<PendingGradients>& pending) {
  parameters_ = std::move(parameters);
  owner_ = owner;
  shares_.resize(parameters_.size());
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    const auto& [name, parameter] = parameters_[id];
    descriptions_.push_back({name, parameter.shape(), parameter.dtype(), parameter.has_sparse_grad()});
    slot({id}).attachment = std::make_shared<const Attachment>(Attachment{ParameterId{id}, name, owner});
    slot({id}).pending = pending;
  }
}

// A slot knows the last gradient that was given out; earlier ones may lie in another arena.
void ReplicaGradients::collect_lent() {
  for (const auto& [name, parameter] : parameters_) {
    GradientSlot& slot = parameter.gradient_slot();
    if (const auto lent = slot.lent.lock())
      for (Arena& arena : arenas_)
        if (arena.memory && arena.memory->holds(*lent)) arena.lent.push_back(lent);
    slot.lent.reset();
  }
}

// What the stream still has to do does not count.
bool ReplicaGradients::is_lent(Arena& arena) {
  const auto alive = [&] {
    std::erase_if(arena.lent, [](const auto& lent) { return lent.expired(); });
    return !arena.lent.empty();
  };
  if (!alive()) return false;
  synchronize(device_);
  return alive();
}

void ReplicaGradients::prepare(const std::shared_ptr<const GradientLayout>& layout) {
  if (parameters_.empty()) return;
  if (scattered()) return drop_shares();
  collect_lent();
  Arena& arena = arenas_[current_];
  const bool fits = arena.memory && arena.memory->layout() == layout && !is_lent(arena);
  if (!fits) {
    if (arena.memory && arena.memory->layout() != layout) drop_unused(arena);
    arena = {std::make_shared<const GradientArena>(layout, descriptions_, memory_), {}};
  }
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    GradientSlot& slot = this->slot({id});
    if (slot.state == GradientState::applied) slot.state = GradientState::undefined;
    if (slot.sparse) {
      if (slot.state == GradientState::undefined) slot.rows.clear();
      continue;
    }
    const Array& place = arena.memory->gradient({id});
    if (slot.destination.defined() && slot.destination.raw_data() == place.raw_data()) continue;
    slot.destination = place;
    if (slot.state == GradientState::accumulated) bring_home({id});
    if (slot.state == GradientState::undefined) slot.gradient = Array();
  }
}

// Of another layout: where nothing in it is needed any more, the next one need not lie beside it.
void ReplicaGradients::drop_unused(Arena& arena) {
  const auto is_unused = [&](std::uint32_t id) {
    const GradientState state = slot({id}).state;
    return state == GradientState::undefined || state == GradientState::applied;
  };
  for (std::uint32_t id = 0; id < parameters_.size(); ++id)
    if (!is_unused(id)) return;
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    GradientSlot& slot = this->slot({id});
    if (slot.sparse) continue;
    slot.state = GradientState::undefined;
    slot.destination = Array();
    slot.gradient = Array();
  }
  arena = {};  // what the stream still does with it holds it; nobody waits for a device
}

void ReplicaGradients::bring_home(ParameterId id) {
  GradientSlot& slot = this->slot(id);
  if (slot.sparse || scattered()) return;
  if (slot.gradient.raw_data() != slot.destination.raw_data()) slot.destination.copy_from(slot.gradient);
  slot.gradient = slot.destination;
}

void ReplicaGradients::install(const RoundResult& round, MemberIndex member, const GradientArena* arena) {
  if (scattered()) return install_shares(round, member);
  for (const auto& reduced : round.reduced) {
    if (!reduced.reaches(member)) continue;
    if (reduced.sparse) {
      GradientSlot& slot = this->slot(reduced.bucket.front().parameter);
      slot.rows = reduced.sparse->gradients[member];
      slot.state = GradientState::settled;
      continue;
    }
    for (const GradientLayout::Place& place : reduced.bucket) {
      GradientSlot& slot = this->slot(place.parameter);
      const Shape& shape = descriptions_[place.parameter.value].shape;
      slot.gradient = arena != nullptr ? arena->gradient(place.parameter)
                                       : gradient_in(reduced.results[member], reduced.bucket, place, shape);
      slot.state = GradientState::settled;
    }
  }
}

Array ReplicaGradients::place_of(ParameterId id) const {
  const SyncParameter& parameter = descriptions_[id.value];
  return scattered() ? Array::empty(parameter.shape, parameter.dtype, device_) : arena()->gradient(id);
}

void ReplicaGradients::install_shares(const RoundResult& round, MemberIndex member) {
  for (const auto& reduced : round.reduced) {
    for (const GradientLayout::Place& place : reduced.bucket) {
      slot(place.parameter).state = GradientState::elsewhere;
      slot(place.parameter).gradient = Array();
    }
    for (const RoundResult::Share& share : reduced.shares)
      if (share.owner == member) shares_[share.parameter.value] = share.gradient;
  }
}

// Of gradients that were zeroed or lost since.
void ReplicaGradients::drop_shares() {
  for (std::uint32_t id = 0; id < parameters_.size(); ++id) {
    if (slot({id}).state != GradientState::elsewhere) shares_[id] = Array();
    if (slot({id}).state == GradientState::undefined) slot({id}).gradient = Array();
  }
}

ReplicaGradients::Versions ReplicaGradients::versions() const {
  Versions versions;
  versions.reserve(parameters_.size());
  for (const auto& [name, parameter] : parameters_) {
    const Storage* const storage = parameter.array().storage().get();
    versions.emplace_back(storage, storage->version());
  }
  return versions;
}

void ReplicaGradients::invalidate() noexcept {
  for (const auto& [name, parameter] : parameters_) {
    parameter.gradient_slot().state = GradientState::undefined;
    parameter.gradient_slot().rows.clear();
  }
  for (Array& share : shares_) share = Array();
}

}  // namespace tutti
