// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Updates parameters from their gradients; from sparse ones if it can, else `step` throws Error. A parameter without a
/// gradient is skipped. `step` joins reductions in flight first. Parameters come in groups, often one, that have a
/// learning rate and options of their own; positions count through all groups. One optimizer belongs to one device's
/// replica and one thread at a time.
class Optimizer {
 public:
  struct Group {
    std::vector<Tensor> parameters;
    double learning_rate = 0.0;
  };
  /// Throws Error for no parameters, one listed twice, or a learning rate that is negative or not finite.
  explicit Optimizer(std::vector<Group>);
  Optimizer(std::vector<Tensor> parameters, double learning_rate);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void step();  ///< one update of every parameter that has a gradient; counts as one step
  /// A step threw midway: some parameters are updated, some are not, until a state is loaded.
  bool torn() const noexcept { return torn_; }
  void zero_grad();  ///< marks every gradient undefined

  std::weak_ptr<const void> lifetime() const noexcept { return lifetime_; }  ///< expires with the optimizer

  std::size_t group_count() const noexcept { return rates_.size(); }
  std::size_t group_of(std::size_t position) const;   ///< Error if there is no such parameter
  double learning_rate(std::size_t group = 0) const;  ///< Error if there is no such group
  void set_learning_rate(double);                     ///< sets the rate of all groups; negative or non-finite: Error
  void set_learning_rate(std::size_t group, double);
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  std::int64_t steps() const noexcept { return steps_; }

  // --- in place of `step`, for who has the gradients one after the other
  /// Makes `step` an error while `owner` lives: the owner calls the two below.
  void hand_over(std::weak_ptr<const void> owner) { owner_ = std::move(owner); }
  void update_parameter(std::size_t position);  ///< does what `step` does for one parameter, once a step
  void end_step() noexcept { ++steps_; }        ///< counts one step

  /// Everything that a restart needs: for each parameter, by position, its named state arrays, its own step count and
  /// its group; for each group its learning rate. Options are the program's. Another kind of optimizer means other
  /// things by arrays of the same names, and refuses it.
  struct ParameterState {
    std::int64_t steps = 0;
    std::vector<std::pair<std::string, Array>> arrays;
    std::size_t group = 0;
  };
  struct State {
    std::int64_t steps = 0;
    std::vector<double> learning_rates;
    std::vector<ParameterState> parameters;
    std::string kind = {};  ///< the optimizer's; empty: not known, as in states from before it was kept
  };
  std::size_t state_bytes() const noexcept;  ///< bytes of the state arrays that exist so far
  State state() const;                       ///< shares no storage with the optimizer
  void check_state(const State&) const;      ///< throws what `load_state` would, and changes nothing
  void load_state(const State&);  ///< copies, onto each parameter's device; a misfit throws Error and changes nothing

  /// "AdamW": what its state says that it is of. Empty: it takes, and gives, states that any kind may load.
  virtual std::string kind() const { return ""; }
  /// Names and values of the options of all groups, which processes that train together need alike. Empty: it tells
  /// none.
  virtual std::string options_of_groups() const { return ""; }
  void check_kind(const State&) const;  ///< throws Error for a state of another kind

  /// True if a step computes the loss more than once: such an optimizer has a `step` of its own that takes a closure,
  /// and the one above, and whoever would call it, refuses it.
  virtual bool needs_closure() const noexcept { return false; }

  /// True if each element is updated by itself, so that devices may keep a share of a parameter (ShardedOptimizer).
  virtual bool elementwise() const noexcept { return true; }

 protected:
  struct Update {
    std::size_t position;
    Array parameter;
    Array gradient;  ///< contiguous, as the parameter is; both of bf16 and f16 parameters come widened to f32
    ParameterState* state;
  };
  /// Changes parameters of one group, device and dtype, with equally many steps behind them.
  virtual void update(std::span<const Update>) = 0;
  /// Why a group cannot use sparse gradients, and what to do; empty: it can, by `update_rows`, which gets them
  /// coalesced.
  virtual std::string refuses_rows(std::size_t group) const;
  virtual void update_rows(std::size_t position, const Array& parameter, const SparseGradient&, ParameterState&);
  /// Names of a group's state arrays, each shaped like its parameter, and what they start as.
  virtual std::vector<std::string> state_names(std::size_t group) const = 0;
  virtual double initial_state(std::size_t /*group*/) const { return 0.0; }
  /// Names that a state to be loaded has to have for one of its parameters.
  virtual std::vector<std::string> loaded_names(const ParameterState&, std::size_t group) const {
    return state_names(group);
  }
  ParameterState& state_of(std::size_t position) { return states_[position]; }
  const ParameterState& state_of(std::size_t position) const { return states_[position]; }
  /// Throws Error where `step` cannot be called: during backward, or after one that threw midway.
  void require_steppable() const;

 private:
  void add_group(Group);
  void prepare(std::size_t position);
  SparseGradient usable_rows(std::size_t position);
  Update usable_update(std::size_t position);
  void apply(std::span<Update>);
  void update_widely(std::span<Update>);
  void apply(std::size_t position, const SparseGradient&);

  std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
  std::vector<Tensor> parameters_;
  std::vector<std::size_t> group_of_;  // group of each parameter, by position
  std::vector<ParameterState> states_;
  std::vector<double> rates_;  // learning rates, by group
  std::int64_t steps_ = 0;
  bool torn_ = false;
  std::weak_ptr<const void> owner_;
};

}  // namespace tutti
