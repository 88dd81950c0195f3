// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/communicator.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/compressed_reduction.h>

namespace tutti {

std::shared_ptr<CollectiveTask> Communicator::reduce_sparse(SparseReduction request) {
  raise<SyncError>(
      "[sync] this engine cannot reduce the sparse gradients of parameter \"{}\": mark it dense with "
      "set_sparse_grad(false) before it is attached",
      request.parameter.name);
}

std::shared_ptr<CollectiveTask> Communicator::compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                                    std::vector<Event>, std::vector<Device>) {
  raise<SyncError>("[all_reduce] this engine does not compress gradients");
}

std::shared_ptr<CollectiveTask> Crew::run(std::vector<Event>, std::span<const Device>, std::int64_t,
                                          std::function<void(std::int64_t)>) {
  raise<SyncError>("[sync] this engine has no threads that work for it");
}

Crew& Communicator::crew() {
  static Crew& nobody = *new Crew;  // groups may end after statics
  return nobody;
}

}  // namespace tutti
