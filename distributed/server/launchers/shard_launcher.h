// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/server/launchers/bucket_launcher.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
  /// The devices' results of a bucket.
  struct Results {
    std::vector<std::pair<ShardPlan::Piece, std::int64_t>> pieces;  // pieces and their offsets in their owners' results
    std::vector<std::int64_t> lengths;                              // elements, by the device's number
  };
  Results plan_results(std::span<const GradientLayout::Place>) const;

  const ShardPlan& shards_;
};

}  // namespace tutti
