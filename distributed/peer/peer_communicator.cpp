// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/peer/peer_communicator.h>

#include <tutti/backend/cuda/cuda_stream.h>
#include <tutti/backend/cuda/gpu_mapping.h>
#include <tutti/backend/cuda/peer_access.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sums.h>
#include <tutti/distributed/peer/peer_launch.h>
#include <tutti/distributed/peer/peer_task.h>

#include <utility>

namespace tutti {

PeerCommunicator::PeerCommunicator(std::vector<Device> devices) : devices_(std::move(devices)) {
  for (const Device device : cuda_runtime::first_of_each_gpu(devices_))
    streams_.push_back(&static_cast<CudaStream&>(backend_for(device).communication_stream(device)));
  cuda_runtime::enable_peer_access(devices_);
}

PeerCommunicator::~PeerCommunicator() {
  const std::exception_ptr error = settle();
  const std::lock_guard lock(mutex_);
  error ? fail_in_flight(error) : end_finished();
}

std::shared_ptr<CollectiveTask> PeerCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (!enabled()) return skipped();
  return launch([&](PeerTask& task) {
    for (const AllReduceSlice& slice : request.slices) task.keep(slice.gradient);
    launch_all_reduce(request, {streams_, "all_reduce"});
  });
}

std::shared_ptr<CollectiveTask> PeerCommunicator::reduce_sparse(SparseReduction request) {
  if (!enabled()) return skipped();
  return launch([&](PeerTask& task) {
    for (const auto& contribution : request.contributions)
      for (const SparseGradient& part : contribution.parts) {
        task.keep(part.indices);
        task.keep(part.rows);
      }
    launch_sparse(request, {streams_, "reduce_sparse"}, [&](const Array& array) { task.keep(array); });
  });
}

std::shared_ptr<CollectiveTask> PeerCommunicator::collective(CollectiveRequest request) {
  return launch([&](PeerTask& task) {
    task.keep(request.inputs);
    task.keep(request.outputs);
    launch_collective(request, {streams_, "collective"});
  });
}

std::shared_ptr<PeerTask> PeerCommunicator::skipped() const {
  auto task = std::make_shared<PeerTask>();
  task->end();
  return task;
}

// GPUs take tasks one by one together: what one writes another may read next.
std::shared_ptr<PeerTask> PeerCommunicator::launch(const std::function<void(PeerTask&)>& queue) {
  const std::lock_guard lock(mutex_);
  end_finished();
  if (untold_) std::rethrow_exception(std::exchange(untold_, nullptr));
  auto task = std::make_shared<PeerTask>();
  try {
    if (streams_.size() > 1) PeerStreams(streams_, "launch").wait_for(last_done_);
    queue(*task);
    std::vector<Event> done;
    for (CudaStream* stream : streams_) done.push_back(stream->record());
    last_done_ = done;
    task->queued(std::move(done));
    in_flight_.push_back(task);
  } catch (...) {
    if (const auto error = settle()) fail_in_flight(error);  // and what was queued uses the arrays no more
    throw;
  }
  return task;
}

void PeerCommunicator::join(Device device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  notice_finished();
  std::exception_ptr error;
  for (const auto& each : tasks) try {
      const auto& task = static_cast<const PeerTask&>(*each);  // this engine launched it
      if (!task.finished()) {
        for (const Event& done : task.done()) compute_stream(device).wait(done);
      } else if (task.error()) {
        std::rethrow_exception(task.error());
      }
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  if (!error) return;
  (void)settle();  // the stream may not be behind all of them, and its next work may write what they use
  std::rethrow_exception(error);
}

void PeerCommunicator::notice_finished() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) end_finished();
}

// Tasks end in the order in which they were launched, as they do on the devices.
void PeerCommunicator::end_finished() {
  for (; !in_flight_.empty(); in_flight_.pop_front()) try {
      const auto& oldest = in_flight_.front();
      if (!oldest->all_done()) return;
      for (const Event& done : oldest->done()) done.synchronize();  // rethrows a device's error
      oldest->end();
    } catch (...) {
      return fail_in_flight(std::current_exception());
    }
}

void PeerCommunicator::fail_in_flight(const std::exception_ptr& error) {
  (void)settle();
  untold_ = error;
  for (; !in_flight_.empty(); in_flight_.pop_front()) in_flight_.front()->end(error);
}

// A device that is lost runs nothing any more.
std::exception_ptr PeerCommunicator::settle() const noexcept {
  std::exception_ptr error;
  for (CudaStream* stream : streams_) try {
      stream->synchronize();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  return error;
}

}  // namespace tutti
