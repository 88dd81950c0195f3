// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/crew.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti {

class CudaStream;
class PeerTask;

/// Tasks that PeerCommunicator has queued on its streams, oldest first, until somebody notices that they have finished:
/// whoever comes by. Shared with the tasks, which may be joined when their engine is gone.
class PeerFlight final : public Crew {
 public:
  /// `streams`: communication streams, of one device on each GPU; the backend's, which is never destroyed.
  explicit PeerFlight(std::vector<CudaStream*> streams) : streams_(std::move(streams)) {}

  const std::vector<CudaStream*>& streams() const noexcept { return streams_; }

  /// Has `queue` queue the task's work, behind the task before. Throws what `queue` throws, and the cause of a failure
  /// that nobody was told of.
  void launch(const std::shared_ptr<PeerTask>&, const std::function<void()>& queue);
  void help(Device) override { notice_finished(); }
  void help_all(Device) override { notice_finished(); }
  void notice_finished() override;             ///< does nothing while somebody else does it
  void wait_for(const PeerTask&);              ///< blocks until the task is finished
  std::exception_ptr settle() const noexcept;  ///< waits for the streams; their first error
  void end() noexcept;                         ///< waits for everything, and ends it

 private:
  void end_finished();
  void fail(const std::exception_ptr&);

  const std::vector<CudaStream*> streams_;

  std::mutex mutex_;                                 // guards what follows
  std::deque<std::shared_ptr<PeerTask>> in_flight_;  // not known to be finished, oldest first
  std::vector<Event> last_done_;                     // ends of the task before, one per GPU
  std::exception_ptr untold_;                        // a failure of tasks that may have been joined
};

}  // namespace tutti
