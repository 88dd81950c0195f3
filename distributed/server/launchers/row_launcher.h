// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/server/launchers/bucket_launcher.h>

#include <optional>

namespace tutti {

/// Reduces the rows of a sparse gradient. Devices that receive need no memory ready: the task makes it, when it knows
/// how many rows there are.
class RowLauncher final : public BucketLauncher {
 public:
  using BucketLauncher::BucketLauncher;
  std::optional<RoundResult::Reduced> launch(const Launch&) override;
};

}  // namespace tutti
