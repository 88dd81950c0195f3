// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/server/launchers/bucket_launcher.h>
#include <tutti/distributed/sync_options.h>

#include <memory>
#include <optional>
#include <vector>

namespace tutti {

/// Reduces dense gradients in place, in the devices' arenas: as they are, in 16 bits, or compressed.
class ArenaLauncher final : public BucketLauncher {
 public:
  /// `options` outlive the launcher.
  ArenaLauncher(const LaunchContext& context, const SyncOptions& options)
      : BucketLauncher(context), options_(options) {}

  std::optional<RoundResult::Reduced> launch(const Launch&) override;

 private:
  std::shared_ptr<CollectiveTask> start(const Launch&, const std::vector<Array>& results, AllReduceRequest);
  std::shared_ptr<CollectiveTask> start_compressed(const Launch&, const std::vector<Array>& results, AllReduceRequest&);

  const SyncOptions& options_;
};

}  // namespace tutti
