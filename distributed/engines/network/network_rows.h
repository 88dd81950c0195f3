// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/sparse_reduction.h>
#include <tutti/distributed/engines/network/network_task.h>
#include <tutti/distributed/engines/network/rows_exchange.h>

#include <cstdint>
#include <memory>
#include <span>

namespace tutti {

/// A reduction of a sparse gradient between hosts: each process sends its devices' rows to all others, and sums those
/// of all for its own devices, in the tree of their numbers. Nobody owns a part of the table and sums it for all: rows
/// go once and no sums come back, so that ids of which one process would own most hold nobody up, and the first words
/// say all sizes; what it costs is in docs/decisions/0024-network-engine.md.
class NetworkRows final : public NetworkTask {
 public:
  /// `members`: of the group, at their numbers. The request has the contributions of this process's devices.
  static std::shared_ptr<NetworkRows> make(std::shared_ptr<NetworkFlight>, std::uint32_t number, SparseReduction,
                                           std::span<const Member> members);

 private:
  NetworkRows(std::shared_ptr<NetworkFlight>, std::shared_ptr<RowsExchange>, SparseReduction);

  void run_stage(const Stage&, std::int64_t chunk) override;
  void combine();
  void drop_chunks() noexcept override;

  std::shared_ptr<RowsExchange> rows_;
  SparseReduction request_;  // has others' contributions too when it is summed
};

}  // namespace tutti
