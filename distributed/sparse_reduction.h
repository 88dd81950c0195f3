// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/gradient_observer.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/gradient_layout.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Result of the reduction of a sparse gradient for each device. Written by the task; valid once it has finished.
struct SparseResult {
  std::vector<bool> receives;                          ///< indexed by member
  std::vector<std::vector<SparseGradient>> gradients;  ///< each member's, on its own device; to be summed
};

/// result = coalesced (sum of the contributions, in the order given) / denominator; every receiver gets a copy of its
/// own. Each contribution is summed by itself first: for a single part each, what comes out is bit for bit what the
/// reduction of dense gradients would give (but for the sign of zeros).
struct SparseReduction {
  struct Contribution {
    Device device;
    std::vector<SparseGradient> parts;  ///< checked by `misfit_of`
  };
  SyncParameter parameter;
  std::vector<Contribution> contributions;
  std::vector<Device> receivers;  ///< one per member; only those that `result` marks receive it
  std::vector<Event> ready;       ///< earlier than these no part may be read; unrecorded ones count as past
  double denominator = 1.0;
  std::shared_ptr<SparseResult> result;
};

/// Reduces on the calling thread, on CPUs. Throws SyncError naming parameter, device and index if one is out of range.
void reduce_sparse(const SparseReduction&);

/// Says what is wrong with a part of the parameter's gradient on this device, but for the indices' values.
std::optional<std::string> misfit_of(const SparseGradient&, const SyncParameter&, Device);

/// The first index that is no row of the table; of a table without rows, which stands for one that grows elsewhere
/// (HashTable), all are. Reads on the host: the indices must be there.
std::optional<std::int64_t> index_out_of_range(const SparseGradient&, const SyncParameter&);

}  // namespace tutti
