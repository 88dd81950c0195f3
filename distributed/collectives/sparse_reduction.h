// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/layout/gradient_layout.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Result of the reduction of a sparse gradient for each device. Written by the task; valid once it has finished.
struct SparseResult {
  std::vector<bool> receives;                          ///< indexed by member
  std::vector<std::vector<SparseGradient>> gradients;  ///< each member's, on its own device; to be summed
};

/// Parts of one member's contribution to a sparse reduction. Shared: those of an earlier reduction's result are there
/// when that has finished.
class SparseParts {
 public:
  SparseParts() : SparseParts(std::vector<SparseGradient>{}) {}
  SparseParts(std::vector<SparseGradient> parts)  // NOLINT(google-explicit-constructor)
      : parts_(std::make_shared<const std::vector<SparseGradient>>(std::move(parts))) {}
  SparseParts(std::initializer_list<SparseGradient> parts) : SparseParts(std::vector(parts)) {}
  /// Takes what the reduction gives that member.
  SparseParts(const std::shared_ptr<const SparseResult>& result, std::size_t member)
      : parts_(result, &result->gradients[member]) {}

  const std::vector<SparseGradient>& get() const noexcept { return *parts_; }
  auto begin() const noexcept { return parts_->begin(); }
  auto end() const noexcept { return parts_->end(); }

 private:
  std::shared_ptr<const std::vector<SparseGradient>> parts_;
};

/// result = coalesced (sum of the contributions, in the tree of their numbers) / denominator; every receiver gets a
/// copy of its own. Each contribution is summed by itself first: for a single part each, what comes out is bit for bit
/// what the reduction of dense gradients would give (but for the sign of zeros).
struct SparseReduction {
  struct Contribution {
    Member member;
    std::size_t number;  ///< the member's in the group; ascending
    SparseParts parts;   ///< checked by `misfit_of`; read when `ready` is past
  };
  SyncParameter parameter;
  std::vector<Contribution> contributions;
  std::vector<Device> receivers;  ///< one per member; only those that `result` marks receive it
  std::vector<Event> ready;       ///< earlier than these no part may be read; unrecorded ones count as past
  double denominator = 1.0;
  std::shared_ptr<SparseResult> result;
  int world = 1;  ///< number of processes, for errors
};

/// Reduces on the calling thread, on CPUs. Throws SyncError naming parameter, device and index if one is out of range.
void reduce_sparse(const SparseReduction&);

/// Says what is wrong with a part of the parameter's gradient on this device, but for the indices' values.
std::optional<std::string> misfit_of(const SparseGradient&, const SyncParameter&, Device);

/// The first index that is no row of the table; of a table without rows, which stands for one that grows elsewhere
/// (HashTable), all are. Reads on the host: the indices must be there.
std::optional<std::int64_t> index_out_of_range(const SparseGradient&, const SyncParameter&);

}  // namespace tutti
