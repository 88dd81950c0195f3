// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <functional>
#include <memory>
#include <vector>

namespace tutti {

class PeerFlight;
class PeerTask;

/// CUDA devices of one process whose kernels reach each other's memory: devices of one GPU, or of several with peer
/// access. Each GPU sums its share of the elements of all devices, in their tree, and writes the results to all: to
/// the bit what LocalCommunicator gives, but for sparse gradients, whose rows are divided before equal ones are summed.
/// Whoever launches queues all of it, behind its inputs and in front of what uses its results by events alone: there is
/// no thread, and nobody waits for a device but the destructor.
///
/// What goes wrong on a device is noticed at a later call. Who had joined then was told nothing and may have used what
/// was left, so the next request throws the cause, once.
class PeerCommunicator final : public Communicator {
 public:
  explicit PeerCommunicator(std::vector<Device>);  ///< throws DeviceError naming two devices without peer access
  ~PeerCommunicator() override;                    ///< waits for what was launched, all of it queued already
  PeerCommunicator(const PeerCommunicator&) = delete;
  PeerCommunicator& operator=(const PeerCommunicator&) = delete;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  /// Gives each receiver the contributions' rows, one after the other and divided, not yet coalesced: how many there
  /// will be is known without waiting for a device.
  bool reduces_sparse() const noexcept override { return true; }
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  /// Nobody is needed for the work; who comes by notices what has finished.
  Crew& crew() override;

 private:
  std::shared_ptr<CollectiveTask> launch(const std::function<void(PeerTask&)>& queue);

  std::shared_ptr<PeerFlight> flight_;
};

}  // namespace tutti
