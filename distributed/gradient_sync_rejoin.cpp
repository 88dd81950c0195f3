// SPDX-License-Identifier: Apache-2.0
// A device's way into the group after a failed one.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>

#include <limits>

namespace tutti {

void SyncMember::refuse_rejoin() const {
  if (phase_ == Phase::open) raise<SyncError>("[sync] {} cannot rejoin inside its step", to_string(device_));
  refuse_waiting_for_own_thread(std::numeric_limits<std::int64_t>::max());  // for any step of another device
}

std::shared_ptr<SyncWaiter> SyncMember::request_rejoin(std::int64_t last_step_applied) {
  refuse_rejoin();
  finish_posted();
  settle_gathers();
  return server_.join_group(index_, server_.group_number() + 1, last_step_applied);
}

void SyncMember::finish_rejoin(SyncWaiter& waiter) {
  waiter.wait();
  // Also of one that failed as it formed: what this device says next is of it. One that left was refused, and enters a
  // group when the others form it, or by following.
  if (!left_) group_number_ = server_.group_number();
  if (waiter.error()) std::rethrow_exception(waiter.error());
  generation_ = 0;
  failure_ = nullptr;
  arrived_ = nullptr;
  joined_generation_ = 0;
  total_weight_ = 0.0;
  required_ = nullptr;
  gradients_.invalidate();
}

}  // namespace tutti
