// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/replica/replica_gradients.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/optim/optimizer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// Overlap::in_backward on one device: updates each parameter once its gradient is reduced and nothing but the
/// parameter itself refers to the memory of its value. Whatever still reads it, in this graph or another, now or
/// queued, holds such a reference; views do too. Used by the thread that drives the device.
class BackwardUpdates {
 public:
  /// `name`: of the member, for errors.
  BackwardUpdates(const ReplicaGradients&, std::string name);
  /// Takes the optimizer over while `owner` lives; what of its parameters requires a gradient is the replica's. Throws
  /// SyncError if another optimizer updates one of them.
  void add(Optimizer&, std::weak_ptr<const void> owner);

  /// Tells, by ParameterId, what is updated here.
  std::vector<bool> covered() const;

  void reset();  ///< forgets, before a step, what one that failed has left
  /// Updates what can be updated now; never blocks. `unknown_reads`: nothing can.
  void poll(DistributedSyncServer&, Device, MemberIndex, bool unknown_reads);
  /// The step is committed and the slots hold its results: updates the rest, and counts the step. Throws SyncError, as
  /// `poll` does, before anything changes if an optimizer is gone.
  void finish(const RoundResult&, MemberIndex);

 private:
  void require_optimizers(const char* operation) const;
  void take_finished(DistributedSyncServer&, Device, MemberIndex);
  bool is_read(ParameterId) const;
  void update(ParameterId);

  struct Attached {
    Optimizer* optimizer;
    std::weak_ptr<const void> lifetime;
  };
  struct Place {
    Optimizer* optimizer = nullptr;  // null: nobody updates the parameter here
    std::size_t position = 0;
  };

  const ReplicaGradients& gradients_;
  const std::string name_;
  std::vector<Attached> optimizers_;
  std::vector<Place> places_;                  // indexed by ParameterId
  std::size_t known_ = 0;                      // reductions of this step that were seen launched
  std::vector<RoundResult::Reduced> running_;  // those of them that have not finished
  std::vector<ParameterId> reduced_;           // finished, and not updated
  std::vector<bool> updated_;                  // indexed by ParameterId
};

}  // namespace tutti
