// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/local/local_crew.h>

#include <memory>
#include <vector>

namespace tutti {

/// CPU devices of one process: their gradients are summed in shared memory, in place. A reduction is cut into chunks,
/// of which each device has an equal share. Chunks are claimed by atomic counter: a device's thread takes its own share
/// whenever it posts something, and anybody's when it waits (LocalCrew). Each element is summed by one thread in one
/// tree, so results do not depend on who helped. The destructor finishes what was launched.
class LocalCommunicator : public Communicator {
 public:
  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  bool reduces_sparse() const noexcept override { return true; }
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>, std::vector<Event> ready,
                                                        std::vector<Device> helping) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  Crew& crew() override { return crew_; }

 private:
  LocalCrew crew_;
};

}  // namespace tutti
