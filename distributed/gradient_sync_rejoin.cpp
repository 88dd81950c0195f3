// SPDX-License-Identifier: Apache-2.0
// A device's way into the group after a failed one.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>

namespace tutti {

std::shared_ptr<SyncWaiter> SyncMember::request_rejoin(std::int64_t last_step_applied) {
  if (phase_ == Phase::open) raise<SyncError>("[sync] {} cannot rejoin inside its step", to_string(device_));
  finish_posted();
  settle_gathers();
  return server_.join_group(index_, server_.group_number() + 1, last_step_applied);
}

void SyncMember::finish_rejoin(SyncWaiter& waiter) {
  waiter.wait();
  if (waiter.error()) std::rethrow_exception(waiter.error());
  group_number_ = server_.group_number();
  generation_ = 0;
  failure_ = nullptr;
  arrived_ = nullptr;
  joined_generation_ = 0;
  required_ = nullptr;
  gradients_.invalidate();
}

void SyncMember::copy_state_from(const SyncMember& ahead) {
  const auto copy = [](const NamedTensors& from, const NamedTensors& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      Array target = to[i].second.array();
      target.copy_from(from[i].second.array());
    }
  };
  if ((optimizer_ == nullptr) != (ahead.optimizer_ == nullptr))
    raise<SyncError>("[rejoin] {} has an attached optimizer and {} has none: its state could not be copied",
                     to_string(optimizer_ != nullptr ? device_ : ahead.device_),
                     to_string(optimizer_ != nullptr ? ahead.device_ : device_));
  copy(ahead.parameters(), parameters());
  copy(ahead.buffers_, buffers_);
  if (optimizer_ != nullptr) optimizer_->load_state(ahead.optimizer_->state());
}

}  // namespace tutti
