// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/server/answers/pending_answers.h>

#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

/// Devices that have left the group and go on receiving its results, with the results that each has not fetched yet.
/// Touched while messages are processed.
class Followers {
 public:
  explicit Followers(std::size_t members) : follows_(members, false), unfetched_(members), questions_(members) {}

  bool follows(MemberIndex member) const { return follows_[member]; }
  /// Says whether a device that has left follows; what one that does not has not fetched is dropped.
  void set(MemberIndex, bool follows);
  /// A device asks for its next result.
  void ask(MemberIndex member, std::shared_ptr<SyncWaiter> waiter, const GroupMembers& members) {
    questions_.ask(member, std::move(waiter), members);
  }
  bool waits(MemberIndex member) const { return questions_.waits(member); }
  bool any_waits() const { return questions_.any(); }

  /// Keeps a result for the device, after those that it has not fetched.
  void add(MemberIndex member, std::shared_ptr<const RoundResult> result) {
    unfetched_[member].push_back(std::move(result));
  }
  void drop_unfetched(MemberIndex member) { unfetched_[member].clear(); }
  /// Hands the device its next result, if it asks and there is one. True if it waits on.
  bool waits_after_serving(MemberIndex);
  /// Ends the device's wait with something else than a result of its queue.
  void answer(MemberIndex member, std::shared_ptr<const RoundResult> result, const std::exception_ptr& error = {}) {
    questions_.answer(member, std::move(result), error);
  }

 private:
  std::vector<bool> follows_;                                              // indexed by member
  std::vector<std::deque<std::shared_ptr<const RoundResult>>> unfetched_;  // indexed by member
  PendingAnswers questions_;
};

}  // namespace tutti
