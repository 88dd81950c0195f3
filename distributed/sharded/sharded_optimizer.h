// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives.h>
#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/member/parts/pending_gathers.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

class GradientSync;

/// One device's part of an optimizer whose state is spread over the devices of a group (ZeRO): the device updates its
/// share of the parameters (ShardPlan) and receives the others' shares. Any optimizer that treats each element by
/// itself does the updates: it is given flat leaves that share storage with the device's ranges of the parameters. The
/// results are those of the unsharded optimizer, bit by bit.
///
/// One on each device of the group, also of other processes, made after the device's replica was attached, alike on
/// all; used by the thread that drives the device. A thread that drives several calls step_async on all, then join on
/// all. `step`, `clip_grad_norm`, `unscale_grad` and `state` are collectives: every device calls them, in the same
/// order, also those that left (Follow::yes).
class ShardedOptimizer final : private PendingGathers {
 public:
  /// Makes an optimizer of some pieces. Called several times; one call makes an optimizer for an element that belongs
  /// to no parameter, to learn the learning rate and the names of the state.
  using Factory = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor> pieces)>;
  /// Groups of parameters with learning rates and options of their own: each group has optimizers to itself.
  struct Groups {
    std::size_t count = 1;
    std::function<std::size_t(const std::string& parameter)> group_of;  ///< takes the parameter's name; below `count`
    std::function<std::unique_ptr<Optimizer>(std::size_t group, std::vector<Tensor> pieces)> make;
  };

  /// Throws SyncError when the group was made with Sharding::none, the device has no replica or has one already, or
  /// the optimizer is none that treats each element by itself.
  ShardedOptimizer(GradientSync&, Device, const Factory&);
  ShardedOptimizer(GradientSync&, Device, const Groups&);
  /// Waits for gathers under way, not for devices: those that have not stepped will not reach this one's parameters in
  /// time. Join first.
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  /// Waits for the step's reductions, updates this device's share, gathers all others'. As an unsharded optimizer's it
  /// skips parameters without a gradient, throws what failed the step, and counts. Throws SyncError, before anything
  /// changes, when the gradients are of a group that has failed or that another has followed: follow, or rejoin, first.
  void step();
  /// Steps without the wait for the others' shares, which arrive while later ones are still being updated. Until `join`
  /// this device's parameters may not be read; the device's next sync.step joins.
  void step_async();
  /// Returns when this device's parameters are whole. Throws SyncError when a device failed before it had updated its
  /// share: parameters are then of two steps, and all that is left is to load a checkpoint.
  void join() override;
  void zero_grad();  ///< calls zero_grad of the replica's parameters

  /// The norm of all gradients, before; scales those of this device's share in place, as tutti::clip_grad_norm does
  /// all.
  double clip_grad_norm(double max_norm, const ClipOptions& = {});
  void clip_grad_value(double limit);  ///< clips this device's share, as tutti::clip_grad_value. Local
  /// Does what GradientScaler::unscale does, on this device's share and with the same answer on all devices, the `and`
  /// of theirs. A collective.
  bool unscale_grad(double scale);

  std::size_t group_count() const noexcept { return prototypes_.size(); }
  double learning_rate(std::size_t group = 0) const;  ///< Error if there is no such group
  void set_learning_rate(double);  ///< sets it for all groups; negative or non-finite: Error. The same on all devices
  void set_learning_rate(std::size_t group, double);
  std::int64_t steps() const noexcept { return steps_; }
  std::size_t state_bytes() const noexcept;  ///< bytes of state that this device keeps
  const ShardPlan& shards() const noexcept { return shards_; }

  /// All devices' shares put together, in the format of an unsharded optimizer of the replica's parameters. Every
  /// device receives it whole. Takes a device that follows into a group that has formed since, as `follow` does.
  Optimizer::State state();
  void check_state(const Optimizer::State&) const;  ///< throws what `load_state` would, and changes nothing. Local
  /// Keeps this device's share of an unsharded optimizer's state. Local. After a failure that has left parameters
  /// between two steps it also says that a checkpoint's parameters have been loaded. A misfit throws Error and changes
  /// nothing.
  void load_state(const Optimizer::State&);

  bool whole() const;  ///< no update has begun whose gathers have not been matched

 private:
  void settle() noexcept override;
  struct Piece {
    ParameterId parameter;
    std::int64_t begin = 0;
    Tensor leaf;  // flat, in the parameter's storage
  };
  struct Share {
    std::size_t group = 0;
    std::vector<Piece> pieces;
    std::unique_ptr<Optimizer> optimizer;  // updates the pieces; there is at least one
  };
  struct Lap {
    std::vector<ParameterId> parameters;  // parameters that its gather moves
    std::vector<Share> shares;            // this device's shares of them, sorted by group
  };

  void learn_prototypes(const Groups&);
  void make_laps(const Groups&, std::size_t bytes);
  Share make_share(const Groups&, const Lap&, std::size_t group) const;
  const Array& parameter(ParameterId) const;
  Array flat_piece(const Array&, const Piece&) const;
  Array gradient_of(const Piece&) const;
  Optimizer& prototype(std::size_t group) const;
  void take_gradients();
  void drop_gradients();
  std::vector<Tensor> leaves() const;
  double sum_over_devices(double mine);
  void post_gather(const Lap&);
  void refuse_own_thread(std::string_view operation, std::int64_t collectives) const;
  Array gather(const Array& mine);
  void gather_steps(Optimizer::State&, const std::vector<Optimizer::ParameterState>& mine);
  void gather_arrays(Optimizer::State&, const std::vector<Optimizer::ParameterState>& mine, std::size_t array, DType);
  std::vector<Optimizer::ParameterState> own_states() const;
  const std::vector<std::string>& state_names(std::size_t id) const { return state_names_[group_of_[id]]; }
  void load_share(Share&, const Optimizer::State&) const;

  std::shared_ptr<SyncMember> member_;
  std::shared_ptr<Collectives> collectives_;
  ShardPlan shards_;
  std::vector<std::size_t> group_of_;                   // indexed by ParameterId
  std::vector<std::unique_ptr<Optimizer>> prototypes_;  // one per group, of no parameter: keep the learning rates
  std::vector<std::vector<std::string>> state_names_;   // one list per group
  std::vector<Lap> laps_;
  std::vector<PendingTensor> pending_;  // gathers
  std::int64_t steps_ = 0;
};

}  // namespace tutti
