// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/network/network_task.h>
#include <tutti/distributed/engines/network/reduction_exchange.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

/// An all-reduce between hosts: each process gets the slices of its share of the elements from all others, sums them
/// with its own in the tree of their devices, and gives the results to all. What travels in 16 bits is rounded once
/// before, and is summed as such.
class NetworkReduction final : public NetworkTask {
 public:
  /// Takes slices that were checked; there is a number for each. `most_slices`: of any process.
  static std::shared_ptr<NetworkReduction> make(std::shared_ptr<NetworkFlight>, std::uint32_t number, AllReduceRequest,
                                                std::size_t most_slices);

 private:
  NetworkReduction(std::shared_ptr<NetworkFlight>, std::shared_ptr<ReductionExchange>, std::vector<Stage>,
                   AllReduceRequest, std::vector<Array> staging, std::span<const Device>);

  void run_stage(const Stage&, std::int64_t chunk) override;
  void narrow(std::uint32_t piece, std::int64_t chunk) const;
  void combine(std::uint32_t piece, std::int64_t chunk) const;
  void spread(std::uint32_t piece, std::int64_t chunk) const;
  void drop_chunks() noexcept override;

  const ReductionExchange& reduction() const noexcept { return *reduction_; }

  std::shared_ptr<ReductionExchange> reduction_;
  AllReduceRequest request_;
  std::vector<Array> staging_;  // arrays that travel, by slice, where that is not the slice itself
  std::size_t helpers_;
};

}  // namespace tutti
