// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/distributed/collectives/collective_call.h>
#include <tutti/distributed/layout/gradient_arena.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/buffer_sync.h>
#include <tutti/distributed/messages/replica_check.h>
#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/processes/process_link.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tutti {

// The messages of devices to the DistributedSyncServer. Those of one device arrive in the order in which it posted
// them.

/// Everything in a replica that requires a gradient. Answered when it is taken, or with why it does not fit.
struct DeclareParameters {
  MemberIndex member = 0;
  std::vector<SyncParameter> parameters;
  std::shared_ptr<SyncWaiter> waiter;
};

/// A step's backward begins; sent by every device, even with no parameters.
struct RegisterSyncParameters {
  Stamp stamp;
  double weight = 0.0;
  bool passes_on = false;  ///< its gradients count with weight 0, too
  std::shared_ptr<const RequiredSet> required;
  std::shared_ptr<const GradientArena> arena;    ///< memory for its gradients, and others' results
  Event arena_free;                              ///< event from which on the arena may be written
  std::chrono::steady_clock::time_point opened;  ///< time of the opening of the step
  std::chrono::steady_clock::time_point at;
};

/// A gradient is final. One is sent for each, so what lies in its place in the registered arena, as its sender has
/// checked, is not carried along.
struct SubmitGradient {
  Stamp stamp;
  ParameterId parameter;
  Event ready;
  std::unique_ptr<GradientRef> elsewhere;  ///< gradient that does not lie there: rows, what is scattered, and misfits
  std::chrono::steady_clock::time_point at;
};

/// Backward has ended; answered when the group commits the step.
struct CollectiveSync {
  Stamp stamp;
  std::unique_ptr<BufferShare> buffers;  ///< null: the replica has none that the server makes equal
  std::shared_ptr<SyncWaiter> waiter;
  std::chrono::steady_clock::time_point at;
};

/// Digest of a replica before the step of the stamp. `waiter` (may be null) is answered when all have been compared.
struct CheckReplica {
  Stamp stamp;
  ReplicaDigest digest;
  std::shared_ptr<SyncWaiter> waiter;
};

/// A device's part in a collective of the users' own; answered when all devices have posted theirs of this number.
struct PostCollective {
  MemberIndex member = 0;
  std::uint64_t group = 1;
  std::int64_t number = 0;  ///< counts this device's collectives in this group, from 1
  CollectiveCall call;
  Array input;                          ///< contiguous; undefined for a barrier and a gather in place
  std::vector<ParameterId> parameters;  ///< parameters of a gather in place
  std::vector<Array> arrays;            ///< its parameters on this device, contiguous
  Event ready;
  bool differentiable = false;  ///< the input requires a gradient
  std::shared_ptr<CollectiveWaiter> waiter;
  std::chrono::steady_clock::time_point at;
};

/// A step was unwound; answered when nothing more will be launched.
struct DeviceFailed {
  Stamp stamp;
  Fault::Kind kind;  // device_failed, or reduction_failed: it found that
  std::exception_ptr error;
  std::shared_ptr<SyncWaiter> waiter;
};

/// End of a device's data. Once it has left: that it follows no more.
struct Leave {
  Stamp stamp;
  bool follow = false;
  std::int64_t applied = 0;  ///< the last generation of the group that it has applied
};

/// A device that left asks for the next result; a null one means that all devices have left.
struct NextResult {
  MemberIndex member = 0;
  std::shared_ptr<SyncWaiter> waiter;
};

/// A device enters the group after the failed one; answered when the group has formed.
struct JoinGroup {
  MemberIndex member = 0;
  std::uint64_t group = 0;
  std::int64_t last_step_applied = 0;  ///< counted over the whole run
  std::int64_t applied = 0;            ///< the last generation of the failed group that it has applied
  std::shared_ptr<SyncWaiter> waiter;
};

struct SetBusy {
  MemberIndex member = 0;
  std::string activity;
};

/// Sent by the server's own thread.
struct CheckDeadlines {
  std::chrono::steady_clock::time_point now;
  std::chrono::steady_clock::time_point running_since;  ///< the process: no wait counts from before
  std::chrono::nanoseconds stood_still{};               ///< the whole process, since it was last sent
};

/// Every process of the group, this one too, has said what was due on a line, by rank.
struct ProcessesSaid {
  ProcessLink::Line line = ProcessLink::Line::round;
  std::vector<ProcessLink::Bytes> by_rank;
};

/// Another process's part in the group has ended.
struct ProcessEnded {
  ProcessLink::End end;
};

/// All that a generation has launched is reduced, or has failed.
struct RoundReduced {
  std::uint64_t group = 1;
  std::int64_t generation = 0;
  std::exception_ptr error;
};

/// Answered when nothing is to be done for other processes any more.
struct AwaitOthers {
  std::shared_ptr<SyncWaiter> waiter;
  bool unwound = false;  ///< true: by an exception; collectives that others were told of are not waited for
};

struct Close {
  bool unwound = false;  ///< true: by an exception, and other processes are told that this one has failed
};

/// SyncOptions::cancel was asked to stop.
struct Cancel {};

// The large messages travel by pointer, so that gradients, of which there are many, need not make room for them.
using SyncMessage = std::variant<SubmitGradient, RegisterSyncParameters, CollectiveSync,
                                 std::unique_ptr<PostCollective>, DeviceFailed, Leave, NextResult, JoinGroup, SetBusy,
                                 CheckReplica, CheckDeadlines, Close, Cancel, std::unique_ptr<DeclareParameters>,
                                 ProcessesSaid, std::unique_ptr<ProcessEnded>, RoundReduced, AwaitOthers>;

}  // namespace tutti
