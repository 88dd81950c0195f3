// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/peer/peer_communicator.h>

#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/cuda/runtime/peer_access.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/peer/peer_flight.h>
#include <tutti/distributed/engines/peer/peer_launch.h>
#include <tutti/distributed/engines/peer/peer_task.h>

#include <utility>

namespace tutti {

PeerCommunicator::PeerCommunicator(std::vector<Device> devices) {
  std::vector<CudaStream*> streams;
  for (const Device device : cuda_runtime::first_of_each_gpu(devices))
    streams.push_back(&static_cast<CudaStream&>(backend_for(device).communication_stream(device)));
  cuda_runtime::enable_peer_access(devices);
  flight_ = std::make_shared<PeerFlight>(std::move(streams));
}

PeerCommunicator::~PeerCommunicator() { flight_->end(); }

Crew& PeerCommunicator::crew() { return *flight_; }

std::shared_ptr<CollectiveTask> PeerCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch([&](PeerTask& task) {
    for (const AllReduceSlice& slice : request.slices) task.keep(slice.gradient);
    launch_all_reduce(request, {flight_->streams(), "all_reduce"});
  });
}

std::shared_ptr<CollectiveTask> PeerCommunicator::reduce_sparse(SparseReduction request) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  return launch([&](PeerTask& task) {
    for (const auto& contribution : request.contributions)
      for (const SparseGradient& part : contribution.parts) {
        task.keep(part.indices);
        task.keep(part.rows);
      }
    launch_sparse(request, {flight_->streams(), "reduce_sparse"}, [&](const Array& array) { task.keep(array); });
  });
}

std::shared_ptr<CollectiveTask> PeerCommunicator::collective(CollectiveRequest request) {
  return launch([&](PeerTask& task) {
    task.keep(request.inputs);
    task.keep(request.outputs);
    launch_collective(request, {flight_->streams(), "collective"});
  });
}

std::shared_ptr<CollectiveTask> PeerCommunicator::launch(const std::function<void(PeerTask&)>& queue) {
  auto task = std::make_shared<PeerTask>(flight_);
  flight_->launch(task, [&] { queue(*task); });
  return task;
}

}  // namespace tutti
