// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/server/launchers/bucket_launcher.h>

#include <optional>

namespace tutti {

/// Reduces dense gradients to their owners alone: from where each device made them into memory of the owners' own, the
/// size of what they own. The engine holds the last references to the gradients themselves, and they go back to their
/// pools bucket by bucket.
class ShardLauncher final : public BucketLauncher {
 public:
  /// `shards` outlive the launcher.
  ShardLauncher(const LaunchContext& context, const ShardPlan& shards) : BucketLauncher(context), shards_(shards) {}

  std::optional<RoundResult::Reduced> launch(const Launch&) override;

 private:
  const ShardPlan& shards_;
};

}  // namespace tutti
