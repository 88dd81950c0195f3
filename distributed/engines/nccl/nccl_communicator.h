// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/launch_order.h>
#include <tutti/distributed/communicator.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tutti {

class NcclGroup;
class NcclTask;
class StandstillWatch;
struct NcclMembership;

/// CUDA devices of one process. Everything that concerns NCCL happens on one thread of the communicator's own, so that
/// its calls are made in one order and never block a device's thread. Collectives run on the devices' communication
/// streams, ordered behind their inputs and in front of what uses their results by events alone: the host waits for
/// peers' submissions, never for a device.
///
/// When NCCL reports a failure, or no collective ends for too long, all that runs is ended, and every task that was not
/// finished fails with the cause. Who had joined one of them was told nothing and may have used what it left, so the
/// next request throws the cause, once. No device is waited for: what it does next comes after what it still has
/// queued. Later ones run among the devices that `regroup` names: by a smaller communicator, where NCCL can make one of
/// what is left, else they are connected anew.
class NcclCommunicator final : public Communicator {
 public:
  /// Connects the devices with the first collective. `deadline`: for NCCL to connect them, and to take a collective.
  /// `fail_after`: for the devices to finish one, counted from its launch or the end of the one before; the error names
  /// the collective and the devices that have not come to it.
  explicit NcclCommunicator(std::vector<Device>, std::chrono::milliseconds deadline = std::chrono::seconds(60),
                            std::chrono::milliseconds fail_after = SyncOptions{}.fail_after);
  /// One process's part of a group of several, of which each requests the same collectives of each sequence in the same
  /// order. `order`: that in which all launch them; none: they are launched as they are requested, by all alike. It
  /// connects once: after a failure every request throws.
  NcclCommunicator(std::vector<Device>, NcclMembership, std::chrono::milliseconds deadline,
                   std::chrono::milliseconds fail_after = SyncOptions{}.fail_after,
                   std::shared_ptr<LaunchOrder> order = nullptr);
  /// Waits for what was launched, for the deadline at most; then for NCCL to end it, as long again.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  /// True for the devices of one process alone: other processes' rows are not exchanged.
  bool reduces_sparse() const noexcept override { return membership_ == nullptr; }
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  void regroup(std::span<const Member>) override;
  /// Ends this process's part: all tasks fail with this reason, and so does every request from now on.
  void abort(std::string_view reason) noexcept override;

  /// Connects now, in place of with the first collective. `look_around` is called now and then meanwhile, and may
  /// throw. Throws what a collective would.
  void connect_now(const std::function<void()>& look_around);

 private:
  /// A request that not all processes have yet.
  struct Held {
    std::shared_ptr<NcclTask> task;
    std::chrono::steady_clock::time_point since;
  };

  std::shared_ptr<CollectiveTask> enqueue(std::string name, Sequence,
                                          std::function<void(NcclGroup&, NcclTask&)> launch);
  void launch_held(Sequence);
  std::exception_ptr ended();
  void throw_if_ended();
  void end_all(const std::exception_ptr&) noexcept;
  std::exception_ptr verdict_on(std::exception_ptr error);
  void note_standstill(StandstillWatch&);  // mutex_ is held
  void give_up_held();
  void run();
  void launch(const std::shared_ptr<NcclTask>&);
  void connect(const std::vector<Device>&);
  std::unique_ptr<NcclGroup> connected(const std::vector<Device>&);
  void finish_in_flight();
  void watch();
  void give_up(std::chrono::milliseconds waited);
  void fail_in_flight(const std::exception_ptr&);
  std::deque<std::shared_ptr<NcclTask>> tell_in_flight(const std::exception_ptr&);
  void order_behind_queued() const noexcept;

  const std::vector<Device> devices_;
  const std::chrono::milliseconds deadline_;
  const std::chrono::milliseconds fail_after_;
  std::unique_ptr<NcclMembership> membership_;  // null: of one process
  const std::shared_ptr<LaunchOrder> order_;    // null: that of the requests

  // Touched by the thread below alone.
  bool met_ = false;                                    // the membership was used
  std::unique_ptr<NcclGroup> group_;                    // none before the first collective; stopped after a failure
  std::deque<std::shared_ptr<NcclTask>> in_flight_;     // launched and not known to be finished, oldest first
  std::chrono::steady_clock::time_point oldest_since_;  // time when the oldest was launched, or the one before it ended

  std::mutex mutex_;  // guards what follows: requests come from whoever drains the server's mailbox
  std::condition_variable requested_;
  std::deque<std::shared_ptr<NcclTask>> queue_;
  std::array<std::deque<Held>, 2> held_;                // requests that wait for their turn, by sequence
  std::exception_ptr ended_;                            // why this process's part is over; null: it is not
  std::shared_ptr<const std::vector<Device>> members_;  // the group's devices, for what is requested now
  std::exception_ptr untold_;                           // a failure of tasks that were launched, and so perhaps joined
  bool stopping_ = false;
  std::thread thread_;  // launches, watches for failures, and notes what has finished; joined here
};

}  // namespace tutti
