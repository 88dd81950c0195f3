// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/server/launchers/bucket_launcher.h>
#include <tutti/distributed/server/launchers/row_launcher.h>
#include <tutti/distributed/sync_options.h>

#include <memory>
#include <optional>
#include <vector>

namespace tutti {

/// Starts the reductions of a group's gradients, from what the devices submit: chooses among the launchers by what is
/// reduced and by the group's options. Touched while messages are processed.
class GradientLaunches {
 public:
  /// Takes references: the arguments outlive the launches.
  GradientLaunches(const GroupMembers&, const std::vector<SyncParameter>&, const SyncOptions&, Communicator&,
                   const Followers&);
  GradientLaunches(const GradientLaunches&) = delete;
  GradientLaunches& operator=(const GradientLaunches&) = delete;

  void prepare();  ///< the parameters are known
  Submissions& submissions() noexcept { return submissions_; }
  /// Nothing, if no device receives the result.
  std::optional<RoundResult::Reduced> launch(const Launch&);
  const ShardPlan* shards() const noexcept { return shards_ ? &*shards_ : nullptr; }  ///< null: nothing is sharded

 private:
  const SyncOptions& options_;
  Submissions submissions_;
  const LaunchContext context_;
  std::optional<ShardPlan> shards_;
  std::unique_ptr<BucketLauncher> dense_;
  RowLauncher sparse_;
};

}  // namespace tutti
