// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/optimizer.h>

#include <functional>

namespace tutti {

struct LinePoint;

struct LbfgsOptions {
  int iterations = 20;  ///< most iterations of a step; > 0
  /// Most evaluations of the loss in a step, which a line search may exceed; 0: iterations * 5 / 4.
  int evaluations = 0;
  double tolerance_gradient = 1e-7;  ///< the step ends where no element of the gradient is larger; >= 0
  double tolerance_change = 1e-9;    ///< the step ends where neither parameters nor the loss change more; >= 0
  int history = 100;                 ///< pairs of vectors that stand for the Hessian matrix; > 0
  bool strong_wolfe = false;         ///< search along the line; else a step is the learning rate times the direction
};

/// L-BFGS: Nocedal and Wright, "Numerical Optimization" (2006), algorithms 7.4 and 7.5, as torch.optim.LBFGS has it.
/// For a loss of all data, not of batches; it is evaluated several times in a step. State, beside the counts of
/// iterations, 2 (1 + history) arrays of the parameter's size: "gradient", "step", and then "s0", "y0", "s1", ..., the
/// oldest first. A state with more pairs than `history` is refused when it is loaded.
///
/// One group of parameters of f32 or f64 on one device, with dense gradients. Of several devices that hold replicas
/// each needs the same loss and gradients. In a step of its own, so that trainers, `Overlap::in_backward` and
/// ShardedOptimizer refuse it.
class Lbfgs : public Optimizer {
 public:
  /// Computes the loss, calls backward and returns the loss. Gradients are marked undefined before each call.
  using Closure = std::function<Tensor()>;

  /// Throws Error for an option outside its range, DTypeError for bf16 and f16 parameters, DeviceError for several
  /// devices.
  explicit Lbfgs(std::vector<Tensor> parameters, double learning_rate = 1.0, const LbfgsOptions& = {});

  /// Returns the first loss; the parameters are left where the last iteration went. Where the loss there is not finite
  /// they are back where it began, and the step ends; without a line search the loss behind the last iteration is not
  /// computed. Error for a first loss that is not finite, and for a gradient that is not where the loss is. A step that
  /// throws, as does one whose closure throws, leaves parameters and state as they were.
  double step(const Closure&);

  bool elementwise() const noexcept override { return false; }
  bool needs_closure() const noexcept override { return true; }
  std::string kind() const override { return "Lbfgs"; }

 protected:
  void update(std::span<const Update>) override;
  std::vector<std::string> state_names(std::size_t group) const override;
  std::vector<std::string> loaded_names(const ParameterState&, std::size_t group) const override;

 private:
  struct Memory;
  class Objective;
  void iterate(Objective&, Memory&, LinePoint first) const;
  Memory recall() const;
  void remember(const Memory&);
  static std::vector<std::string> names_of(std::size_t pairs);

  LbfgsOptions options_;
};

}  // namespace tutti
