// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Updates parameters from their gradients; from sparse ones if it can, else `step` throws Error. A parameter without a
/// gradient is skipped. `step` joins reductions in flight first. One optimizer belongs to one device's replica and one
/// thread at a time.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> parameters, double learning_rate);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void step();  ///< one update of every parameter that has a gradient; counts as one step
  /// A step threw midway: some parameters are updated, some are not, until a state is loaded.
  bool torn() const noexcept { return torn_; }
  void zero_grad();  ///< marks every gradient undefined

  std::weak_ptr<const void> lifetime() const noexcept { return lifetime_; }  ///< expires with the optimizer

  double learning_rate() const noexcept { return learning_rate_; }
  void set_learning_rate(double);  ///< negative or non-finite: Error
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  std::int64_t steps() const noexcept { return steps_; }

  // --- in place of `step`, for who has the gradients one after the other
  /// While `owner` lives, `step` is an error: the owner calls the two below.
  void hand_over(std::weak_ptr<const void> owner) { owner_ = std::move(owner); }
  void update_parameter(std::size_t position);  ///< what `step` does for one parameter, once a step
  void end_step() noexcept { ++steps_; }        ///< counts one step

  /// Everything that a restart needs: for each parameter, by position, its named state arrays, and its own step count.
  struct ParameterState {
    std::int64_t steps = 0;
    std::vector<std::pair<std::string, Array>> arrays;
  };
  struct State {
    std::int64_t steps = 0;
    double learning_rate = 0.0;
    std::vector<ParameterState> parameters;
  };
  std::size_t state_bytes() const noexcept;  ///< of the state arrays that exist so far
  State state() const;                       ///< shares no storage with the optimizer
  void load_state(const State&);  ///< copies, onto each parameter's device; a misfit throws Error and changes nothing

 protected:
  virtual void update(std::size_t position, const Array& parameter, const Array& gradient, ParameterState&) = 0;
  /// Why it cannot use sparse gradients, and what to do; empty: it can, by `update_rows`, which gets them coalesced.
  virtual std::string refuses_rows() const;
  virtual void update_rows(std::size_t position, const Array& parameter, const SparseGradient&, ParameterState&);
  /// Names of the state arrays, each shaped like its parameter.
  virtual std::vector<std::string> state_names() const = 0;

 private:
  void prepare(std::size_t position, const std::vector<std::string>& names);
  Array usable_gradient(std::size_t position, const std::vector<std::string>& names);
  SparseGradient usable_rows(std::size_t position, const std::vector<std::string>& names);
  void apply(std::size_t position, const Array& gradient);
  void apply(std::size_t position, const SparseGradient&);

  std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
  std::vector<Tensor> parameters_;
  std::vector<ParameterState> states_;
  double learning_rate_;
  std::int64_t steps_ = 0;
  bool torn_ = false;
  std::weak_ptr<const void> owner_;
};

}  // namespace tutti
