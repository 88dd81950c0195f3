// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tables/hash_table.h>
#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/messages/buffer_sync.h>
#include <tutti/distributed/replica/replica_gradients.h>
#include <tutti/distributed/replica/replica_state.h>
#include <tutti/distributed/replica/shown_members.h>
#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>

#include <memory>
#include <vector>

namespace tutti {

/// One device's replica of the model: its parameters with their gradients, frozen parameters, buffers, hash tables and
/// attached optimizers. It declares them to the server, copies them for devices that are to continue from here, and
/// makes the digests by which replicas are compared. For the thread that drives the device, and after a
/// failure for the one that makes the replicas equal.
class Replica {
 public:
  explicit Replica(const MemberPlace&);

  /// Takes the module's members as this device's and declares them to the server. `owner` is the identity of their
  /// member, `pending` what their readers join. Throws SyncError, and takes nothing, if they do not fit the device or
  /// what other devices declared.
  void attach(Module&, const void* owner, const std::weak_ptr<PendingGradients>& pending);
  bool is_attached() const noexcept { return attached_; }
  /// Throws SyncError if other devices have a replica and this one has none: it could not take their results.
  void require(const char* operation) const;

  ReplicaGradients& gradients() noexcept { return gradients_; }
  const ReplicaGradients& gradients() const noexcept { return gradients_; }
  const NamedTensors& parameters() const noexcept { return gradients_.parameters(); }

  /// Throws SyncError if a parameter that was frozen requires a gradient now.
  void refuse_unfrozen() const;
  /// Throws SyncError if the module shows other parameters than those that were attached.
  void refuse_replaced() const;

  // --- optimizers
  /// Throws SyncError if the optimizer is attached already, or trains what is none of this replica's.
  void refuse_optimizer(const Optimizer&) const;
  /// Keeps an optimizer that `refuse_optimizer` lets pass, for copies of its state.
  void attach(Optimizer&);
  void require_living_optimizers(const char* operation) const;

  // --- buffers
  /// The buffers as the server makes them equal at the end of a step; null if there is nothing for it to do.
  std::unique_ptr<BufferShare> buffer_share(bool has_examples);
  /// Takes what the others' step has left in this device's copy of their buffers.
  void install_buffers(const RoundResult&);

  // --- after a failure
  /// Parameters, buffers, hash tables and attached optimizers' state, copied; nobody else may be running.
  std::shared_ptr<const ReplicaState> capture() const;
  /// An attached optimizer threw midway through a step: the parameters are of none.
  bool is_torn() const;
  /// Throws SyncError if another number of optimizers is attached here, or the replica has other tables.
  void restore(const ReplicaState&);
  /// Restores the buffers that a failed step has changed, unless BufferPolicy::synchronised.
  void restore_buffers(const ReplicaState&);

  // --- the check of the replicas
  /// Digest of hash tables and parameters, without buffers, which each step changes before it is checked.
  ReplicaDigest digest() const;
  void append_buffers(ReplicaDigest&) const;

 private:
  struct AttachedOptimizer {
    Optimizer* optimizer;
    std::weak_ptr<const void> lifetime;
  };

  std::vector<SyncParameter> describe_parameters(const NamedTensors&) const;
  std::vector<SyncParameter> describe_buffers(const NamedTensors&) const;
  void refuse_foreign(const Optimizer&) const;
  void restore_tables(const ReplicaState&);
  bool sends_buffers() const noexcept { return place_.options().buffers != BufferPolicy::synchronised; }

  const MemberPlace place_;
  ReplicaGradients gradients_;
  ShownMembers shown_;
  NamedTensors frozen_;  // parameters without a gradient
  NamedTensors buffers_;
  NamedTables tables_;  // hash tables, which grow
  std::vector<AttachedOptimizer> optimizers_;
  bool attached_ = false;
};

}  // namespace tutti
