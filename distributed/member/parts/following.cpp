// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/following.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

Following::Following(const MemberPlace& place, Standing& standing, Replica& replica, StepResults& results,
                     MemberShare& share)
    : place_(place), standing_(standing), replica_(replica), results_(results), share_(share) {}

void Following::leave(bool follow) {
  if (standing_.has_left()) {
    if (!follow) end();
    return;
  }
  follows_ = follow;
  left_group_ = standing_.group();
  standing_.leave();
  results_.reset_updates();
  place_.server.leave(standing_.stamp(standing_.generation() + 1), follow, results_.last_applied());
}

// Nothing is kept for it any more.
void Following::end() {
  follows_ = false;
  place_.server.leave(standing_.stamp(standing_.generation() + 1), false);
}

std::shared_ptr<SyncWaiter> Following::next_answer() {
  // In a group that has formed since, the first answer, its state, is there already.
  if (standing_.followed_group() == place_.server.group_number())
    place_.threads.refuse_waiting_for_own(place_.index, standing_.generation() + 1);
  const std::shared_ptr<SyncWaiter> waiter = place_.server.next_result(place_.index);
  waiter->wait();
  if (!waiter->error()) return waiter;
  results_.wait_for_tasks(waiter->result().get());
  std::rethrow_exception(waiter->error());
}

void Following::require() const {
  if (!follows_)
    raise<SyncError>("[sync] {} does not follow: it left without Follow::yes, or could not take over a group's state",
                     place_.name());
}

bool Following::follow() {
  std::shared_ptr<SyncWaiter> waiter = next_answer();
  while (waiter->result() && waiter->result()->state) {
    take_over(*waiter->result()->state);
    waiter = next_answer();
  }
  if (waiter->result()) standing_.set_generation(waiter->result()->generation);
  if (lost_) std::rethrow_exception(lost_);
  if (!waiter->result()) return false;
  // A failure is of a step that this group knows nothing of.
  if (standing_.group() != left_group_) results_.set_failure(nullptr);
  take(*waiter->result());
  return true;
}

// The others formed a new group, and go on from there.
void Following::take_over(const ReplicaState& state) {
  share_.settle();  // gathers write to what is restored
  try {
    replica_.restore(state);
  } catch (...) {
    end();
    throw;
  }
  standing_.follow_into(state.group);
  lost_ = nullptr;
  replica_.gradients().invalidate();
  results_.reset_updates();
}

void Following::take_over_formed_group() {
  while (follows_ && standing_.followed_group() != place_.server.group_number()) {
    const std::shared_ptr<SyncWaiter> waiter = next_answer();
    if (!waiter->result() || !waiter->result()->state) return;  // it failed as it formed
    take_over(*waiter->result()->state);
  }
}

void Following::take(const RoundResult& round) {
  // The last step's, its own or a followed one, which an optimizer would apply once more.
  replica_.gradients().invalidate();
  try {
    // Also of what was attached after it had left.
    if (round.generation == 1) results_.declare_updates(standing_.followed_group());
    results_.take(round);
    replica_.install_buffers(round);
  } catch (...) {
    lost_ = std::make_exception_ptr(SyncError(
        fmt::format("[sync] {} could not take the result of step {} ({}): it follows again from the next group's state",
                    place_.name(), round.generation, text_of(std::current_exception()))));
    replica_.gradients().invalidate();
    results_.reset_updates();
    if (place_.server.has_others() && share_.is_owned()) results_.fail(lost_);  // no group forms that brings it back
    throw;
  }
}

}  // namespace tutti
