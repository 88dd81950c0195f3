// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

namespace tutti {

class GradientCompression;

/// How the devices' gradients become one. Sums run in a balanced tree over the devices' numbers, in f32
/// or wider (docs/synchronisation.md).
enum class GradientReduction : std::uint8_t {
  sum,            ///< sum of g_i
  mean,           ///< sum of g_i / devices, also those that left (Absent::subset: / those that require the parameter)
  weighted_mean,  ///< sum of w_i g_i / sum of w_i: exact for uneven batches when each loss is a mean over w_i examples
};
std::string_view to_string(GradientReduction) noexcept;  ///< "weighted_mean"

/// Treatment of a parameter that only some devices require in a step.
enum class Absent : std::uint8_t {
  zero,    ///< the others contribute zeros, and all devices receive the result: the gradient of the mean loss
  subset,  ///< reduced among those that require it; the others' gradients are left alone
};
std::string_view to_string(Absent) noexcept;  ///< "subset"

/// Time at which a step's gradients are used.
enum class Overlap : std::uint8_t {
  immediate,  ///< used by the optimizer step that follows their backward
  /// Used by the second optimizer step after their backward: reductions, and waiting for slower devices, overlap with
  /// the next forward as well. The first step has no gradients, `GradientSync::flush` gives the last ones; gradients
  /// take twice the memory.
  double_buffered,
  /// Used during backward: a parameter is updated, by the optimizer attached for its device, as soon as its gradient is
  /// reduced and nothing refers to its value any more, the rest by `join`. There is no optimizer step to call. A step
  /// that fails may then be applied in part. Neither no_sync nor clipping by the global norm goes with it.
  in_backward,
};
std::string_view to_string(Overlap) noexcept;  ///< "double_buffered"

/// Treatment of the replicas' buffers (running statistics) at the end of each step.
enum class BufferPolicy : std::uint8_t {
  main,          ///< all become those of the first device, in the group's order, that had examples
  mean,          ///< floating ones become the mean over the devices that had examples, others as under main
  synchronised,  ///< nothing is sent: layers keep them equal by collectives of their own, or each device keeps its own
};
std::string_view to_string(BufferPolicy) noexcept;  ///< "synchronised"

/// Type in which gradients travel between devices. They stay f32 on each device, and sums run in f32; 16 bits halve the
/// traffic of a network or of links between GPUs. In the shared memory of one process nothing travels, so nothing is
/// saved: the numbers are those that such an engine gives.
enum class GradientWire : std::uint8_t {
  native,  ///< their own type
  bf16,    ///< f32's range, 8 significant bits
  f16,     ///< 11 significant bits; an element above 65504 arrives as infinity on every device
};
std::string_view to_string(GradientWire) noexcept;  ///< "bf16"
/// Selects what each device keeps only its share of (ShardedOptimizer). Not with Absent::subset, immediate mode only.
enum class Sharding : std::uint8_t {
  none,
  optimizer_state,  ///< ZeRO-1: gradients are reduced as ever
  /// ZeRO-2: a gradient's reduction goes to the devices that update it only, and its memory is freed with it. Gradients
  /// can then not be read, nor used by an ordinary optimizer.
  gradients,
};
std::string_view to_string(Sharding) noexcept;  ///< "optimizer_state"

struct SyncOptions {
  GradientReduction reduction = GradientReduction::weighted_mean;
  Absent absent = Absent::zero;
  Overlap overlap = Overlap::immediate;
  Sharding sharding = Sharding::none;
  /// Each contribution is rounded once, to nearest even, and the result once more; weights are taken out before.
  /// Refused for f64 parameters. `check_finite` looks at gradients before they travel, not at what overflows on the
  /// way.
  GradientWire wire = GradientWire::native;
  /// Reduces factors of the gradients in place of the gradients: PowerSgd (distributed/power_sgd.h), or your own. One
  /// object per group, in each of its processes one with the same options. For Absent::zero only.
  std::shared_ptr<GradientCompression> compression = {};
  /// Buffers count as written by the forward and complete when the step's collective sync is posted: they may be
  /// written again once the step was joined. Only `synchronised` goes with Overlap::double_buffered.
  BufferPolicy buffers = BufferPolicy::main;
  /// Neighbouring gradients are reduced together up to this size, in bytes; 0: each by itself. Larger ones cost fewer
  /// messages, smaller ones leave more of backward to hide behind.
  std::size_t bucket_bytes = std::size_t{64} << 10;
  /// Scans each gradient for NaN and infinity before it is submitted, on the thread that computed it; one fails the
  /// group before anything of its parameter is reduced. With asynchronous streams each scan waits for its gradient.
  bool check_finite = false;
  /// Compares the replicas, parameters, buffers and hash tables (which are read to the host for it) bit by bit, at the
  /// beginning of steps 1, k + 1, 2 k + 1, ... of a group; a difference fails the group before anybody applies that
  /// step. 0: never. Buffers are those from before the step's forward: open the step before it. Not for Absent::subset,
  /// nor for buffers that each device keeps for itself.
  std::int64_t consistency_every = 0;
  /// A wait this long is reported through `warn`, with what is missing. milliseconds::max(): never. While the process
  /// stands still (stopped, paused) no wait counts: deadlines begin anew, and `warn` is told.
  std::chrono::milliseconds warn_after{10'000};
  /// A wait this long fails the group, with what is missing; one for a step of another process a quarter later, since
  /// who is waited for may know more.
  std::chrono::milliseconds fail_after{300'000};
  /// Default: the log sink (backend/log.h). Called by the group's own thread; an exception it throws is
  /// ignored. It and `dump` may call the group's fail, busy, close, report and recent_events;
  /// what else they call, and would wait in, is a SyncError.
  std::function<void(const std::string&)> warn = {};
  std::size_t recorded_steps = 64;    ///< how many of the last steps `report` covers
  std::size_t recorded_events = 256;  ///< how many of the last events a failure shows; 0: none are kept; at most 2^20
  /// Receives the last events as text, a line each, when the group fails (not when it is closed). Called by the thread
  /// that processes the failure, before anybody is told of it; an exception it throws is told through `warn`. Default:
  /// appends to the file that the environment variable TUTTI_SYNC_DUMP names, if it is set.
  std::function<void(const std::string&)> dump = {};
  /// A request to stop ends the group at once: whoever waits in it, on any device and in any process, gets a SyncError
  /// that says so, and it cannot be joined again. Devices may then have applied different steps: go on from a
  /// checkpoint. To end a training between two steps, with a checkpoint, see StopOnRequest. Any thread may request it,
  /// which then may call `dump` and `warn`; tokens may differ between processes, and one of them is enough.
  std::stop_token cancel = {};
};

}  // namespace tutti
