// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/peer/peer_flight.h>

#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/distributed/engines/peer/peer_launch.h>
#include <tutti/distributed/engines/peer/peer_task.h>

#include <utility>

namespace tutti {

// GPUs take tasks one by one together: what one writes another may read next.
void PeerFlight::launch(const std::shared_ptr<PeerTask>& task, const std::function<void()>& queue) {
  const std::lock_guard lock(mutex_);
  end_finished();
  if (untold_) std::rethrow_exception(std::exchange(untold_, nullptr));
  try {
    if (streams_.size() > 1) PeerStreams(streams_, "launch").wait_for(last_done_);
    queue();
    std::vector<Event> done;
    for (CudaStream* stream : streams_) done.push_back(stream->record());
    last_done_ = done;
    task->queued(std::move(done));
    in_flight_.push_back(task);
  } catch (...) {
    if (const auto error = settle()) fail(error);  // and what was queued uses the arrays no more
    throw;
  }
}

void PeerFlight::notice_finished() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) end_finished();
}

void PeerFlight::wait_for(const PeerTask& task) {
  for (const Event& done : task.on_streams()) done.wait();
  const std::lock_guard lock(mutex_);
  end_finished();
}

void PeerFlight::end() noexcept {
  const std::exception_ptr error = settle();
  const std::lock_guard lock(mutex_);
  error ? fail(error) : end_finished();
}

// Tasks end in the order in which they were launched, as they do on the devices.
void PeerFlight::end_finished() {
  for (; !in_flight_.empty(); in_flight_.pop_front()) try {
      const auto& oldest = in_flight_.front();
      if (!oldest->all_done()) return;
      for (const Event& done : oldest->done()) done.synchronize();  // rethrows a device's error
      oldest->end();
    } catch (...) {
      return fail(std::current_exception());
    }
}

void PeerFlight::fail(const std::exception_ptr& error) {
  (void)settle();
  untold_ = error;
  for (; !in_flight_.empty(); in_flight_.pop_front()) in_flight_.front()->end(error);
}

// A device that is lost runs nothing any more.
std::exception_ptr PeerFlight::settle() const noexcept {
  std::exception_ptr error;
  for (CudaStream* stream : streams_) try {
      stream->synchronize();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  return error;
}

}  // namespace tutti
