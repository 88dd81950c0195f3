// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/messages/sync_messages.h>
#include <tutti/distributed/processes/collective_words.h>
#include <tutti/distributed/report/sync_text.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Collectives of the users' own that some devices of this process have posted: number k of all is matched, checked,
/// told to the other processes if there are any, and launched. Touched while messages are processed.
class CollectiveQueue {
 public:
  using Clock = CollectiveTask::Clock;
  using Results = std::vector<std::shared_ptr<CollectiveResult>>;  ///< indexed by member

  /// `members` outlive the queue.
  explicit CollectiveQueue(const GroupMembers& members) : members_(members), posted_(members.size()) {}

  /// Adds a device's part. Returns what is wrong with it, on arrival, so that a mismatch is found before the last
  /// device has posted; it waits in the queue nonetheless, and hears of the failure.
  std::optional<std::string> add(PostCollective);
  const GroupMembers& members() const noexcept { return members_; }  ///< the group's
  bool is_empty() const;
  bool has_told() const noexcept { return told_ > 0; }     ///< some was given to be told, and is not launched
  std::int64_t due() const noexcept { return done_ + 1; }  ///< number of the next
  bool is_matched() const { return are_matched(1); }       ///< every device has posted the next
  /// A device's part in the next collective, which is matched.
  const PostCollective& next(MemberIndex member) const { return posted_[member].front(); }
  /// The next collective, which is matched, as this process's devices have posted it.
  PostedCollective posted() const { return posted_at(0); }
  /// The first collective that is matched and was not given here before; none: there is no such.
  std::optional<PostedCollective> take_untold();
  /// Answers every device's part in the next collective, which leaves the queue.
  void answer(Results);
  /// Answers everything with the error; the next group counts anew.
  void fail(const std::exception_ptr&);

  /// How long the device that posted first has waited, not counted from before `running_since`.
  Clock::duration waited(Clock::time_point now, Clock::time_point running_since) const;
  /// True once for each collective, and again after `begin_deadlines_anew`: a warning is due.
  bool warn_once();
  void begin_deadlines_anew() { warned_ = false; }
  /// "collective 3 (all_reduce sum [2] f32)": the next one, which somebody has posted.
  std::string next_text() const;
  /// Says who has posted the next collective, which somebody has, and who has not. `ranks`: processes that have not,
  /// where all devices of this one have.
  std::string missing_text(Clock::duration waited, const SyncNames&, const std::function<bool(MemberIndex)>& has_left,
                           std::span<const int> ranks = {}) const;

 private:
  std::string text_of(const CollectiveCall& call) const { return to_string(call, members_.world()); }
  bool are_matched(std::size_t count) const;
  PostedCollective posted_at(std::size_t place) const;

  const GroupMembers& members_;
  std::vector<std::deque<PostCollective>> posted_;  // parts that not all have posted; indexed by member
  std::int64_t done_ = 0;                           // the number of the last that all have posted, in this group
  std::size_t told_ = 0;                            // how many of those were given to be told
  bool warned_ = false;                             // a warning about the next was given
};

/// Launches the next collective of the queue, which is matched. `all`: the calls of the group's devices. `shards`:
/// those that a gather puts together; null where nothing is sharded. Results are those of this process's devices.
CollectiveQueue::Results launch_collective(const CollectiveQueue&, const PostedCollective& all, Communicator&,
                                           const ShardPlan* shards);

}  // namespace tutti
