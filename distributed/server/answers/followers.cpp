// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/answers/followers.h>

#include <utility>

namespace tutti {

void Followers::set(MemberIndex member, bool follows) {
  follows_[member] = follows;
  if (!follows) drop_unfetched(member);
}

bool Followers::waits_after_serving(MemberIndex member) {
  auto& unfetched = unfetched_[member];
  if (waits(member) && !unfetched.empty()) {
    answer(member, std::move(unfetched.front()));
    unfetched.pop_front();
  }
  return waits(member);
}

}  // namespace tutti
