// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/distributed/layout/gradient_arena.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/nn/module.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

/// The gradient slots of one replica and the memory behind them. Used by the thread that drives the device.
class ReplicaGradients {
 public:
  /// `memory`: for arenas. `arenas`: 1, or 2 when a step's gradients are read while the next step's are made; 0 when
  /// gradients are scattered: each is then made anywhere, and given up when it is submitted.
  ReplicaGradients(Device device, std::size_t arenas, GradientArena::Memory memory)
      : device_(device), memory_(std::move(memory)), arenas_(arenas) {}
  ~ReplicaGradients();  ///< the parameters belong to no group afterwards

  /// Takes the parameters in the order of their ids, all on the device and in no group yet, else SyncError. `owner` is
  /// the identity of their group's member, `pending` what their readers join.
  void attach(NamedTensors, const void* owner, const std::weak_ptr<PendingGradients>& pending);

  Device device() const noexcept { return device_; }
  /// True if the tensor is one of the parameters that were attached here.
  bool owns(const Tensor& parameter) const {
    const auto& attachment = parameter.gradient_slot().attachment;
    return attachment && attachment->owner == owner_;
  }
  const NamedTensors& parameters() const noexcept { return parameters_; }
  const std::vector<SyncParameter>& descriptions() const noexcept { return descriptions_; }
  GradientSlot& slot(ParameterId id) const { return parameters_[id.value].second.gradient_slot(); }

  /// The next step's memory.
  void turn() noexcept {
    if (!scattered()) current_ = (current_ + 1) % arenas_.size();
  }
  /// Makes the slots' gradients end in this layout from now on. Takes new memory when the layout has changed or the
  /// user holds a gradient: the old one then lives on with the user. Gradients move along.
  void prepare(const std::shared_ptr<const GradientLayout>&);
  /// Null when gradients are scattered.
  std::shared_ptr<const GradientArena> arena() const noexcept {
    return scattered() ? nullptr : arenas_[current_].memory;
  }
  bool scattered() const noexcept { return arenas_.empty(); }
  /// This device's range of a scattered gradient, flat; valid while the slot's state is `elsewhere`.
  const Array& share(ParameterId id) const { return shares_[id.value]; }
  /// The memory for a gradient that nobody computes.
  Array place_of(ParameterId) const;
  /// Brings home a gradient that was accumulated elsewhere while the user held the sum so far.
  void bring_home(ParameterId);
  /// The gradient that was accumulated locally, as it is submitted.
  GradientRef local(ParameterId id, Event ready) const {
    const GradientSlot& from = slot(id);
    return from.sparse ? GradientRef{Array(), std::move(ready), false, from.rows}
                       : GradientRef{from.gradient, std::move(ready)};
  }

  /// The results of a round, made in `arena` (null: wherever the server put them), become what the slots hold.
  void install(const RoundResult&, MemberIndex, const GradientArena*);
  void invalidate() noexcept;

  /// Each parameter's memory and how often it was written: unequal once a parameter was.
  using Versions = std::vector<std::pair<const Storage*, std::uint32_t>>;
  Versions versions() const;

 private:
  struct Arena {
    std::shared_ptr<const GradientArena> memory;
    std::vector<std::weak_ptr<Storage>> lent;  // gradients in it that the user was given
  };
  void drop_shares();
  void install_shares(const RoundResult&, MemberIndex);
  void collect_lent();
  bool is_lent(Arena&);
  void drop_unused(Arena&);

  Device device_;
  GradientArena::Memory memory_;
  NamedTensors parameters_;  // indexed by ParameterId
  std::vector<SyncParameter> descriptions_;
  const void* owner_ = nullptr;
  std::vector<Array> shares_;  // ranges of scattered gradients, by ParameterId
  std::vector<Arena> arenas_;
  std::size_t current_ = 0;
};

}  // namespace tutti
