// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/nccl/nccl_group.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace tutti {
class NcclCommunicator;
}

namespace tutti::testing {

/// One of several processes, each with cuda:0 as its only device.
struct Rank {
  int number = 0;
  int world = 1;
  NcclMembership membership;

  static constexpr std::chrono::seconds kDeadline{30};
  std::unique_ptr<NcclCommunicator> connect() const;
};

struct RankFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Every collective, beside the CPU's engine with the same inputs. Throws RankFailure.
void check_collectives(const Rank&, NcclCommunicator&);

struct RankTraining {
  double difference = 0;       ///< of the parameters from those of one device with all ranks' data, relative
  double step_seconds = 0;     ///< of the larger model
  double exposed_seconds = 0;  ///< of it, what a step takes longer than without reductions
};
/// Steps of a small model; fills in `difference`.
RankTraining train_ranks(const Rank&);
/// Steps of a larger one, with a group of its own; fills in the times.
void measure_steps(const Rank&, RankTraining&);

}  // namespace tutti::testing
