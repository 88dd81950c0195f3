// SPDX-License-Identifier: Apache-2.0
// The end of a device's data, and what it takes from the others afterwards.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/sync_text.h>

#include <utility>

namespace tutti {

bool SyncMember::flush() {
  if (phase_ == Phase::open)
    raise<SyncError>("[sync] {} cannot flush inside its step {}", to_string(device_), generation_);
  const bool posted = posted_.waiter != nullptr;
  refuse_waiting_for_posted();
  finish_posted();
  if (failure_) std::rethrow_exception(failure_);
  return posted;
}

void SyncMember::leave(bool follow) {
  if (phase_ == Phase::open)
    raise<SyncError>("[sync] {} cannot leave inside its step {}", to_string(device_), generation_);
  if (follow) require_replica("sync.leave");
  if (follow) require_optimizer("sync.leave");
  if (!follow) refuse_leaving_with_share();
  if (follow && server_.options().absent == Absent::subset)
    raise<SyncError>(
        "[sync] {} cannot follow: under Absent::subset a result goes to those that took part only, so leave with "
        "Follow::no",
        to_string(device_));
  refuse_waiting_for_posted();
  if (double_buffered() && posted_.waiter && !failure_)
    raise<SyncError>("[sync] the gradients of {}'s step {} are still on their way: flush and step the optimizer first",
                     to_string(device_), generation_);
  if (follow && generation_ == 0) declare_updates(group_number_);
  finish_posted();  // also a device whose last step failed may leave
  if (std::exchange(left_, true)) {
    if (!follow) end_following();
    return;
  }
  follows_ = follow;
  left_group_ = followed_group_ = group_number_;
  if (updates_) updates_->reset();
  server_.leave({index_, group_number_, generation_ + 1}, follow, last_applied());
}

// Nothing is kept for it any more.
void SyncMember::end_following() {
  follows_ = false;
  server_.leave({index_, group_number_, generation_ + 1}, false);
}

std::shared_ptr<SyncWaiter> SyncMember::next_answer() {
  // In a group that has formed since, the first answer, its state, is there already.
  if (followed_group_ == server_.group_number()) refuse_waiting_for_own_thread(generation_ + 1);
  const std::shared_ptr<SyncWaiter> waiter = server_.next_result(index_);
  waiter->wait();
  if (!waiter->error()) return waiter;
  wait_for_tasks(waiter->result().get());
  std::rethrow_exception(waiter->error());
}

bool SyncMember::follow() {
  if (!follows_)
    raise<SyncError>("[sync] {} does not follow: it left without Follow::yes, or could not take over a group's state",
                     to_string(device_));
  require_replica("sync.follow");
  require_optimizer("sync.follow");
  std::shared_ptr<SyncWaiter> waiter = next_answer();
  while (waiter->result() && waiter->result()->state) {
    take_over(*waiter->result()->state);
    waiter = next_answer();
  }
  if (waiter->result()) generation_ = waiter->result()->generation;
  if (lost_) std::rethrow_exception(lost_);
  if (!waiter->result()) return false;
  if (group_number_ != left_group_) set_failure(nullptr);  // of a step that this group knows nothing of
  take(*waiter->result());
  return true;
}

// The others formed a new group, and go on from there.
void SyncMember::take_over(const ReplicaState& state) {
  settle_gathers();  // they write to what is restored
  try {
    restore(state);
  } catch (...) {
    end_following();
    throw;
  }
  enter_group(state.group);
  followed_group_ = state.group;
  generation_ = 0;
  lost_ = nullptr;
  gradients_.invalidate();
  if (updates_) updates_->reset();
}

// Waits for nobody: of a group that has formed, its state is the first answer.
void SyncMember::take_over_formed_group() {
  while (follows_ && followed_group_ != server_.group_number()) {
    const std::shared_ptr<SyncWaiter> waiter = next_answer();
    if (!waiter->result() || !waiter->result()->state) return;  // it failed as it formed
    take_over(*waiter->result()->state);
  }
}

void SyncMember::take(const RoundResult& round) {
  gradients_.invalidate();  // the last step's, its own or a followed one, which an optimizer would apply once more
  try {
    if (round.generation == 1) declare_updates(followed_group_);  // also of what was attached after it had left
    wait_for_reductions(round);
    install(round, {});
    install_buffers(round);
  } catch (...) {
    lost_ = std::make_exception_ptr(SyncError(
        fmt::format("[sync] {} could not take the result of step {} ({}): it follows again from the next group's state",
                    to_string(device_), round.generation, text_of(std::current_exception()))));
    gradients_.invalidate();
    if (updates_) updates_->reset();
    throw;
  }
}

}  // namespace tutti
