// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collective_plan.h>
#include <tutti/distributed/sparse_reduction.h>
#include <tutti/distributed/sync_options.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class CompressedReduction;

/// One device's part in an all-reduce.
struct AllReduceSlice {
  Array gradient;           ///< contiguous, floating; read if it contributes, always overwritten with the result
  bool contributes = true;  ///< false: stands for zeros, whatever it holds
  bool helps = true;        ///< its device's thread will come for a share of the work; false: it has left
};

/// result = (sum over contributing slices, in the order given) / denominator, written to every slice. All slices have
/// one dtype and element count and lie on distinct devices. With a 16-bit wire s (f32 slices only), each contribution
/// is rounded once, s(g wire_scale), the sum runs in f32 and is divided by denominator wire_scale, and the result is
/// rounded once for its way back.
struct AllReduceRequest {
  std::vector<AllReduceSlice> slices;
  std::vector<Event> ready;  ///< earlier than these no slice may be touched; unrecorded ones count as past
  double denominator = 1.0;
  GradientWire wire = GradientWire::native;
  double wire_scale = 1.0;     ///< a power of two
  std::string parameter = {};  ///< the first of those it is for, by name; for errors
};

/// A collective on its way. Shared by the engine, the server and the devices that wait for it. Thread-safe.
class CollectiveTask {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~CollectiveTask() = default;
  bool finished() const noexcept { return progress() == kFinished; }
  void wait() const noexcept {  ///< blocks until finished
    for (std::uint32_t now; (now = progress()) != kFinished;) wait_past(now);
  }
  /// Changes with every stage that ends, for tasks that have several; kFinished at last.
  std::uint32_t progress() const noexcept { return progress_.load(std::memory_order_acquire); }
  void wait_past(std::uint32_t progress) const noexcept { progress_.wait(progress, std::memory_order_acquire); }
  static constexpr std::uint32_t kFinished = ~std::uint32_t{0};
  /// The task's own error, not that of whoever helped with it; null unless it failed. Valid once finished.
  const std::exception_ptr& error() const noexcept { return error_; }
  Clock::time_point finished_at() const noexcept { return finished_at_; }  ///< valid once finished
  std::chrono::nanoseconds busy() const noexcept {                         ///< time spent, over all threads
    return std::chrono::nanoseconds(busy_ns_.load(std::memory_order_relaxed));
  }

 protected:
  void finish(std::exception_ptr error = {}) {
    error_ = std::move(error);
    finished_at_ = Clock::now();
    advance(kFinished);
  }
  void advance(std::uint32_t progress) {
    progress_.store(progress, std::memory_order_release);
    progress_.notify_all();
  }
  void add_busy(std::chrono::nanoseconds time) noexcept { busy_ns_.fetch_add(time.count(), std::memory_order_relaxed); }
  /// Keeps what different threads write or poll from sharing a cache line. Not alignas, as memory with an alignment of
  /// its own takes several times as long to get.
  struct Gap {
    std::byte bytes[64];
  };

 private:
  std::atomic<std::uint32_t> progress_{0};  // polled
  std::exception_ptr error_;
  Clock::time_point finished_at_{};
  [[maybe_unused]] Gap gap_;
  std::atomic<std::int64_t> busy_ns_{0};  // last, so that engines may put beside it what is written with it
};

/// Runs collectives between the devices of one group, in the order in which they were launched as far as their inputs
/// allow. Engines are: local (CPU devices of one process), peer (CUDA devices of one process that reach each other's
/// memory) and NCCL (CUDA devices on one GPU each).
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Queues the reduction and returns at once. Called by one thread at a time (the server's drain). An exception means
  /// that nothing was queued.
  virtual std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) = 0;

  /// Queues, as all_reduce does, the reduction of a sparse gradient. While off it leaves the result as it is. Default:
  /// throws SyncError, for an engine that has no such reduction.
  virtual std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction);

  /// Queues, as all_reduce does, a reduction of compressed gradients (distributed/compressed_reduction.h), of which
  /// nothing may be touched before `ready`. An engine that does not know how throws SyncError.
  virtual std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                                std::vector<Event> ready, std::vector<Device> helping);

  /// Queues, as all_reduce does, a collective of the users' own, which always runs.
  virtual std::shared_ptr<CollectiveTask> collective(CollectiveRequest) = 0;

  /// The group has formed anew after a failure: from now on requests name these devices alone, which are some of the
  /// engine's. Called like requests. Default: nothing, for an engine that needs no device that is not named.
  virtual void regroup(std::span<const Device>) {}

  /// Lends the calling thread, which drives `device` and has other work to do, to this device's share of what is ready;
  /// never blocks. Thread-safe.
  virtual void help(Device device) = 0;

  /// Lends the calling thread, as `help` does, where it would otherwise wait: it takes over what others have not begun.
  virtual void help_all(Device device) = 0;

  /// Orders the tasks before later work on `device`'s compute stream and returns when that is safe to rely on; engines
  /// on CPUs help until the tasks are finished. Rethrows the first failed task's error. Thread-safe.
  virtual void join(Device device, std::span<const std::shared_ptr<CollectiveTask>>) = 0;

  /// Switches reductions off and on, to measure what they cost: while off, all_reduce leaves every slice as it is and
  /// finishes at once.
  void set_enabled(bool enabled) noexcept { enabled_.store(enabled, std::memory_order_relaxed); }
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> enabled_{true};
};

/// The engine for these devices: local on CPUs; peer for CUDA devices of one GPU; for one on each of several GPUs NCCL,
/// or peer if that was not built. Throws DeviceError, naming devices, if there is none for them.
/// `fail_after`: for engines that watch what the devices do, as in SyncOptions.
std::unique_ptr<Communicator> make_communicator(std::span<const Device>,
                                                std::chrono::milliseconds fail_after = SyncOptions{}.fail_after);

}  // namespace tutti
