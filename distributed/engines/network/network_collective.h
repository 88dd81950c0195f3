// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/collective_exchange.h>
#include <tutti/distributed/engines/network/network_task.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

/// A users' collective between hosts: each process combines what its own outputs receive. So what several receive is
/// computed by each of them.
class NetworkCollective final : public NetworkTask {
 public:
  /// `process_of`: place of the process that has a member, by its number. The request has an array for this process's
  /// places at least; those of others are not looked at.
  static std::shared_ptr<NetworkCollective> make(std::shared_ptr<NetworkFlight>, std::uint32_t number,
                                                 CollectiveRequest, const CollectiveExchange::ProcessOf& process_of);

 private:
  /// Work of a chunk: a range of a part's elements.
  struct Work {
    std::size_t part;
    std::int64_t begin;
    std::int64_t count;
  };
  NetworkCollective(std::shared_ptr<NetworkFlight>, std::shared_ptr<CollectiveExchange>, std::vector<Stage>,
                    CollectiveRequest, std::vector<std::vector<Work>>, std::span<const Device>);

  void run_stage(const Stage&, std::int64_t chunk) override;
  void look_up(std::uint32_t piece);
  void drop_chunks() noexcept override;

  std::shared_ptr<CollectiveExchange> collective_;
  CollectiveRequest request_;  // inputs: own arrays, then a block of each process, of the piece that is combined
  std::size_t own_arrays_;
  std::vector<std::vector<Work>> work_;  // chunks by piece
};

}  // namespace tutti
