// SPDX-License-Identifier: Apache-2.0
// A device's way into the group after a failed one.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>

#include <algorithm>
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
  return server_.join_group(index_, server_.group_number() + 1, last_step_applied, last_applied());
}

// With Overlap::in_backward the result is used as it comes, and of one that does not reach this device nothing is to be
// used.
void SyncMember::note_installed(const RoundResult& round) {
  const bool reached =
      std::ranges::any_of(round.reduced, [this](const auto& reduced) { return reduced.reaches(index_); });
  installed_ = {round.generation, reached && !updates_ ? gradients_.versions() : ReplicaGradients::Versions()};
}

// Whatever writes to a parameter after a result was installed counts as its update; so does a checkpoint that is
// loaded.
std::int64_t SyncMember::last_applied() const {
  const bool waits = !installed_.unwritten.empty() && installed_.unwritten == gradients_.versions();
  return installed_.generation - (waits ? 1 : 0);
}

void SyncMember::finish_rejoin(SyncWaiter& waiter) {
  waiter.wait();
  // Also of one that failed as it formed: what this device says next is of it. One that left was refused, and enters a
  // group when the others form it, or by following.
  if (!left_) group_number_ = server_.group_number();
  if (waiter.error()) std::rethrow_exception(waiter.error());
  generation_ = 0;
  set_failure(nullptr);
  arrived_ = nullptr;
  joined_generation_ = 0;
  total_weight_ = 0.0;
  installed_ = {};
  required_ = nullptr;
  gradients_.invalidate();
}

}  // namespace tutti
