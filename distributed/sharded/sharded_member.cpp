// SPDX-License-Identifier: Apache-2.0
// What sharding adds to a device's side of a GradientSync.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>

namespace tutti {

void SyncMember::attach(ShardedOptimizer* sharded) {
  if (sharded != nullptr && sharded_ != nullptr)
    raise<SyncError>("[sync] {} has a sharded optimizer already", to_string(device_));
  sharded_ = sharded;
  share_.keep(sharded != nullptr);
}

void SyncMember::join_gathers() {
  if (sharded_ != nullptr) try {
      sharded_->join();
    } catch (...) {  // refused, or never to be complete: the others shall know why
      if (share_.torn()) fail(std::current_exception());
      throw;
    }
}

void SyncMember::settle_gathers() noexcept {
  if (sharded_ != nullptr) sharded_->settle();
}

// A group that forms has its number before it looks at the shares: either it finds this update begun, or this finds it.
void SyncMember::begin_share(std::int64_t step, std::size_t gathers) {
  share_.begin(step, gathers, [this] {
    server_.check_alive();  // the others' shares would never come
    refuse_old_group("step");
  });
}

// What a device that left has fetched is of the group that it has followed into, whichever it has entered.
void SyncMember::refuse_old_group(std::string_view operation) const {
  const std::uint64_t own = left_ ? followed_group_ : group_number_.load();
  if (const std::uint64_t current = server_.group_number(); current != own)
    raise<SyncError>("[sharded] {} of {} is of group {}, but group {} has formed: {} first", operation,
                     to_string(device_), own, current, left_ ? "follow" : "rejoin");
}

// The server has the only reference then: a scattered gradient's memory is free when it is reduced, for which nobody
// else is waited for.
void SyncMember::give_up(ParameterId id, GradientRef gradient) {
  if (!gradient.gradient.is_contiguous()) {
    gradient.gradient = gradient.gradient.contiguous();
    gradient.ready = compute_stream(device_).record();
  }
  gradients_.slot(id).state = GradientState::undefined;
  gradients_.slot(id).gradient = Array();
  server_.submit(stamp(), id, std::move(gradient));
  server_.communicator().crew().help_all(device_);
}

// Nobody else would update it.
void SyncMember::refuse_leaving_with_share() const {
  if (sharded_ != nullptr)
    raise<SyncError>(
        "[sync] {} owns a share of the parameters: leave with Follow::yes, and step its sharded optimizer after each "
        "follow",
        to_string(device_));
}

}  // namespace tutti
