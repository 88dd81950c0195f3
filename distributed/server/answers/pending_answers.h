// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/messages/sync_waiter.h>

#include <exception>
#include <memory>
#include <vector>

namespace tutti {

/// Questions of one kind that members have asked and that wait for their answer, one at most for each. Touched while
/// messages are processed.
class PendingAnswers {
 public:
  explicit PendingAnswers(std::size_t members) : waiters_(members) {}

  /// Adds a member's question. One that it asked earlier is answered with a SyncError: none may stay without an answer.
  void ask(MemberIndex, std::shared_ptr<SyncWaiter>, const GroupMembers&);
  bool waits(MemberIndex member) const { return waiters_[member] != nullptr; }
  bool any() const;
  /// Answers the member, if it has asked; or all that have.
  void answer(MemberIndex, std::shared_ptr<const RoundResult>, const std::exception_ptr& = {});
  void answer_all(const std::shared_ptr<const RoundResult>&, const std::exception_ptr& = {});

 private:
  std::vector<std::shared_ptr<SyncWaiter>> waiters_;  // indexed by member
};

}  // namespace tutti
