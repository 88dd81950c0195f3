// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/member_share.h>

#include <tutti/backend/raise.h>

namespace tutti {

MemberShare::MemberShare(const MemberPlace& place, const Standing& standing, StepResults& results)
    : place_(place), standing_(standing), results_(results) {}

void MemberShare::attach(PendingGathers& gathers) {
  if (gathers_ != nullptr) raise<SyncError>("[sync] {} has a sharded optimizer already", place_.name());
  gathers_ = &gathers;
  progress_.keep(true);
}

void MemberShare::detach() noexcept {
  gathers_ = nullptr;
  progress_.keep(false);
}

void MemberShare::join() {
  if (gathers_ != nullptr) try {
      gathers_->join();
    } catch (...) {  // refused, or never to be complete: the others shall know why
      if (progress_.torn()) results_.fail(std::current_exception());
      throw;
    }
}

void MemberShare::settle() noexcept {
  if (gathers_ != nullptr) gathers_->settle();
}

// A group that forms has its number before it looks at the shares: either it finds this update begun, or this finds it.
void MemberShare::begin(std::int64_t step, std::size_t gathers) {
  progress_.begin(step, gathers, [this] {
    place_.server.check_alive();  // the others' shares would never come
    refuse_old_group("step");
  });
}

// What a device that left has fetched is of the group that it has followed into, whichever it has entered.
void MemberShare::refuse_old_group(std::string_view operation) const {
  const bool left = standing_.has_left();
  const std::uint64_t own = left ? standing_.followed_group() : standing_.group();
  if (const std::uint64_t current = place_.server.group_number(); current != own)
    raise<SyncError>("[sharded] {} of {} is of group {}, but group {} has formed: {} first", operation, place_.name(),
                     own, current, left ? "follow" : "rejoin");
}

void MemberShare::prepare_leaving() {
  if (place_.server.has_others()) return join();
  if (gathers_ != nullptr)
    raise<SyncError>(
        "[sync] {} owns a share of the parameters: leave with Follow::yes, and step its sharded optimizer after each "
        "follow",
        place_.name());
}

}  // namespace tutti
