// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/distributed/collectives/collective_call.h>
#include <tutti/distributed/messages/sync_waiter.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class Collectives;
class DistributedSyncServer;
class ShardPlan;
class ShardedOptimizer;
class SyncMember;
struct PostCollective;

/// One device's result of a collective on its way. Belongs to the thread that drives the device. May be dropped: the
/// collective goes on. The input may not be written in place before `resolve` has returned.
class [[nodiscard]] PendingTensor {
 public:
  PendingTensor(PendingTensor&&) noexcept = default;
  PendingTensor& operator=(PendingTensor&&) noexcept = default;

  bool ready() const noexcept;  ///< resolve would not wait for another device's post
  /// Waits until all devices have posted this collective, and orders the result before later work on the device. Called
  /// again it returns the same tensor. Throws the group's SyncError if the group failed or was closed before all had
  /// posted, and SyncError at once, naming the device, if this thread itself drives one that has not posted.
  Tensor resolve();

 private:
  friend class Collectives;
  friend class ShardedOptimizer;
  PendingTensor() = default;

  std::weak_ptr<Collectives> collectives_;
  std::shared_ptr<CollectiveWaiter> waiter_;
  std::size_t member_ = 0;
  std::uint64_t group_ = 0;
  std::int64_t number_ = 0;
  CollectiveCall call_;
  bool recording_ = false;  // true: gradients were enabled when it was posted
  Tensor input_;
  Tensor result_;
};

/// The collectives of a GradientSync, whose members document them: numbers each device's calls, sends them to the
/// server, and gives results their gradients. A gradient is a collective too, posted while backward runs.
class Collectives {
 public:
  /// `members`, all of the group, outlive the collectives.
  Collectives(DistributedSyncServer&, std::span<const std::unique_ptr<SyncMember>> members);

  /// Posts number k of this device. `self` owns the group: pending tensors refer to it. `call` without shape and dtype:
  /// the tensor's are taken. Empty lengths where parts are needed: as even as possible. Throws DeviceError, ShapeError
  /// or DTypeError, before anything is posted, for a call that no group could do.
  static PendingTensor post(const std::shared_ptr<Collectives>& self, Device, CollectiveCall call, const Tensor&);
  /// Posts that this device has updated its share of these parameters, which the others' shares may now be written to.
  /// `self` as in `post`. `arrays`: the parameters on this device. The result, an undefined tensor, is there when all
  /// of them are whole.
  static PendingTensor gather_in_place(const std::shared_ptr<Collectives>& self, Device, std::vector<ParameterId>,
                                       std::vector<Array> arrays, const ShardPlan&);
  /// Waits until the server has answered, and until the result may be relied on.
  void await(const PendingTensor&);
  /// A graph of that member holds a collective: gradients of other devices' losses may pass there.
  void note_recorded(std::size_t member);
  /// A device whose last step the calling thread opened and that has posted fewer collectives than `device` will have
  /// after `more`.
  std::optional<std::string> unposted_of_own_thread(Device device, std::int64_t more) const;

 private:
  struct Poster {  // one device; written by its thread, read by those that would wait for it
    std::atomic<std::uint64_t> group{1};
    std::atomic<std::int64_t> posted{0};
  };

  std::size_t member_of(Device) const;
  PendingTensor send(PendingTensor, PostCollective);
  CollectiveCall completed(CollectiveCall, const Tensor&, Device) const;
  void refuse_waiting_for_own_thread(const PendingTensor&) const;

  DistributedSyncServer& server_;
  const std::span<const std::unique_ptr<SyncMember>> members_;
  std::vector<Poster> posters_;
};

}  // namespace tutti
