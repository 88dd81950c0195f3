// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/peer/peer_task.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/peer/peer_flight.h>

namespace tutti {

void PeerTask::join(Device device) {
  flight_->notice_finished();  // so that a failure of the streams is told now
  try {
    if (!finished())
      for (const Event& done : done_) compute_stream(device).wait(done);
    else if (error())
      std::rethrow_exception(error());
  } catch (...) {
    (void)flight_->settle();  // the stream may not be behind it, and its next work may write what the task uses
    throw;
  }
}

// Nobody else may come by.
void PeerTask::wait_past(std::uint32_t) noexcept {
  try {
    flight_->wait_for(*this);
  } catch (...) {
    // without memory for an event's list or a lock: asked again
  }
}

}  // namespace tutti
