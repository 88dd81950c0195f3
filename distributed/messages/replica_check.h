// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/sync_waiter.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// 128 bits of what an array holds, bit by bit: 0.0 and -0.0 differ. Any change within one 8-byte word changes it;
/// other changes with overwhelming probability. Against accidents, not against an adversary.
struct Digest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};
Digest digest_of(std::span<const std::byte>);
Digest digest_of(const Array&);        ///< copied to the host: waits for its device's compute stream
std::string to_string(const Digest&);  ///< 32 hexadecimal digits

struct NamedDigest {
  std::string name;  ///< hash table "users", parameter "fc1.weight", buffer "mean"
  Digest digest;
};
using ReplicaDigest = std::vector<NamedDigest>;  ///< hash tables, parameters, then buffers, in their order
Digest digest_of(std::span<const NamedDigest>);  ///< one for all, of their names too

/// The digests that a group's members have posted and that wait to be compared. Not thread-safe: the server's.
class ReplicaCheck {
 public:
  struct Difference {
    MemberIndex member;  ///< the first that differs from the first member that has posted
    std::string text;    ///< says what differs, where, and both values
  };

  explicit ReplicaCheck(std::size_t members) : posts_(members) {}

  /// `waiter`, which may be null, hears of the comparison. Throws SyncError if the member has posted already.
  void post(MemberIndex, ReplicaDigest, std::shared_ptr<SyncWaiter> waiter);
  bool has_posted(MemberIndex member) const { return posts_[member].has_value(); }
  /// Some member waits for the others' posts.
  bool awaited() const;
  std::vector<MemberIndex> missing(const std::function<bool(MemberIndex)>& has_left) const;
  /// Finds the first hash table, parameter or buffer, in order, that is not the same on all members that have posted.
  std::optional<Difference> difference(const GroupMembers&) const;
  bool empty() const;
  /// Digest of the first member that has posted; some has.
  const ReplicaDigest& first() const;
  std::vector<std::shared_ptr<SyncWaiter>> clear();  ///< returns those who wait

 private:
  struct Post {
    ReplicaDigest digest;
    std::shared_ptr<SyncWaiter> waiter;
  };
  std::vector<std::optional<Post>> posts_;  // indexed by member
};

}  // namespace tutti
