// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/server/answers/followers.h>
#include <tutti/distributed/server/launchers/submissions.h>

#include <optional>
#include <vector>

namespace tutti {

/// Parts of the server that all ways of launching need.
struct LaunchContext {
  const GroupMembers& members;
  const std::vector<SyncParameter>& parameters;
  Communicator& communicator;
  Submissions& submissions;
  const Followers& followers;

  /// True if the device gets the result. Not where the Absent policy gives it none; not a device that left in an
  /// earlier generation and does not follow; and where nothing is reduced, only what the device has made itself.
  bool reaches(const Launch::Part& part, MemberIndex member) const {
    return part.receives && (!part.absent || followers.follows(member)) && (part.contributes || communicator.enabled());
  }
};

/// Starts the reduction of a bucket whose gradients are there. Derived classes: one for each form in which gradients
/// come and results go. The server calls it while messages are processed.
class BucketLauncher {
 public:
  explicit BucketLauncher(const LaunchContext& context) : context_(context) {}
  virtual ~BucketLauncher() = default;
  BucketLauncher(const BucketLauncher&) = delete;
  BucketLauncher& operator=(const BucketLauncher&) = delete;

  /// Nothing, if no device receives the result.
  virtual std::optional<RoundResult::Reduced> launch(const Launch&) = 0;

 protected:
  const LaunchContext context_;
};

}  // namespace tutti
