// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/backward_updates.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>

namespace tutti {

BackwardUpdates::BackwardUpdates(const ReplicaGradients& gradients, std::string name)
    : gradients_(gradients),
      name_(std::move(name)),
      places_(gradients.parameters().size()),
      updated_(gradients.parameters().size(), false) {}

void BackwardUpdates::add(Optimizer& optimizer, std::weak_ptr<const void> owner) {
  if (optimizer.needs_closure())
    raise<SyncError>("[attach] {} computes the loss several times in a step: Overlap::in_backward cannot call it",
                     optimizer.kind());
  std::vector<Place> places = places_;
  for (std::size_t position = 0; position < optimizer.parameters().size(); ++position) {
    if (!optimizer.parameters()[position].requires_grad()) continue;
    const auto found = std::ranges::find_if(gradients_.parameters(), [&](const auto& named) {
      return named.second.is_same(optimizer.parameters()[position]);
    });
    Place& place = places[static_cast<std::size_t>(found - gradients_.parameters().begin())];
    if (place.optimizer != nullptr)
      raise<SyncError>("[attach] parameter \"{}\" is updated by two optimizers", found->first);
    place = {&optimizer, position};
  }
  places_ = std::move(places);
  optimizers_.push_back({&optimizer, optimizer.lifetime()});
  optimizer.hand_over(std::move(owner));
}

std::vector<bool> BackwardUpdates::covered() const {
  std::vector<bool> covered;
  for (const Place& place : places_) covered.push_back(place.optimizer != nullptr);
  return covered;
}

void BackwardUpdates::reset() {
  known_ = 0;
  running_.clear();
  reduced_.clear();
  std::fill(updated_.begin(), updated_.end(), false);
}

void BackwardUpdates::require_optimizers(const char* operation) const {
  for (const Attached& attached : optimizers_)
    if (attached.lifetime.expired())
      raise<SyncError>("[{}] an optimizer that was attached to {} has been destroyed: its step is not complete",
                       operation, name_);
}

void BackwardUpdates::poll(DistributedSyncServer& server, Device device, MemberIndex member, bool unknown_reads) {
  take_finished(server, device, member);
  if (unknown_reads || reduced_.empty()) return;
  require_optimizers("step.backward");
  std::erase_if(reduced_, [this](ParameterId id) {
    if (is_read(id)) return false;
    update(id);
    return true;
  });
}

// One that failed is left to the join, which tells the group.
void BackwardUpdates::take_finished(DistributedSyncServer& server, Device device, MemberIndex member) {
  std::vector<RoundResult::Reduced> launched = server.launched_after(known_);
  known_ += launched.size();
  std::ranges::move(launched, std::back_inserter(running_));
  std::erase_if(running_, [&](const RoundResult::Reduced& reduced) {
    if (!reduced.task->finished()) return false;
    if (!reduced.reaches(member) || reduced.task->error()) return true;
    reduced.task->join(device);
    for (const GradientLayout::Place& place : reduced.bucket) {
      GradientSlot& slot = gradients_.slot(place.parameter);
      if (reduced.sparse)
        slot.rows = reduced.sparse->gradients[member];
      else
        slot.gradient = gradients_.arena()->gradient(place.parameter);
      slot.state = GradientState::settled;
      reduced_.push_back(place.parameter);
    }
    return true;
  });
}

bool BackwardUpdates::is_read(ParameterId id) const {
  return gradients_.parameters()[id.value].second.array().storage().use_count() > 1;
}

void BackwardUpdates::finish(const RoundResult& round, MemberIndex member) {
  require_optimizers("join");
  for (const auto& reduced : round.reduced)
    if (reduced.reaches(member))
      for (const GradientLayout::Place& place : reduced.bucket) update(place.parameter);
  for (const Attached& attached : optimizers_) attached.optimizer->end_step();
  reset();
}

void BackwardUpdates::update(ParameterId id) {
  const auto& [optimizer, position] = places_[id.value];
  if (optimizer == nullptr) return;  // left to whoever updates it, like any reduced gradient
  if (!updated_[id.value]) optimizer->update_parameter(position);
  updated_[id.value] = true;
  gradients_.slot(id).state = GradientState::applied;
}

}  // namespace tutti
