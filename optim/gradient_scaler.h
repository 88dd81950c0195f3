// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/optimizer.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>

namespace tutti {

struct GradientScalerOptions {
  double initial_scale = 65536.0;       ///< > 0
  double growth_factor = 2.0;           ///< > 1
  double backoff_factor = 0.5;          ///< factor of the scale after a step that overflowed, in (0, 1)
  std::int64_t growth_interval = 2000;  ///< finite steps in a row, after which the scale grows; > 0
};

/// Keeps the small gradients of 16-bit training from vanishing: the loss is multiplied by a scale, the gradients are
/// divided by it again, and a step whose gradients overflowed is left out and lowers the scale.
///
///     step.backward(scaler.scale(loss));
///     scaler.unscale(parameters);  // only to clip, or to look at the gradients
///     clip_grad_norm(parameters, 1.0);
///     scaler.step(optimizer);
///
/// or, with several optimizers, unscale the parameters of each, call step() of those whose were finite, and update
/// once.
///
/// With a group each device has a scaler, made alike. Reduced gradients are bitwise the same on all devices and a NaN
/// or infinity of one device reaches all of them, so that they decide alike without a word; of a ShardedOptimizer each
/// device sees its share, and ShardedOptimizer::unscale_grad asks the others. The scales must be the same in a step:
/// who rejoins a group loads another's state. Not for Overlap::in_backward, which updates before all gradients are
/// there, nor for groups whose devices keep gradients of their own (reductions off, Absent::subset).
class GradientScaler {
 public:
  /// Throws Error for an option outside its range.
  explicit GradientScaler(const GradientScalerOptions& = {});

  double scale() const noexcept {
    scale_was_asked_ = true;
    return state_.scale;
  }
  Tensor scale(const Tensor& loss) const;  ///< loss * scale(), for backward; differentiable

  /// Divides the gradients by the scale, in place, and says whether all were finite: if not, it leaves them and they
  /// must not be used. Joins reductions first; reads one number a gradient on the host. DTypeError for parameters of
  /// f16, Error for one that was unscaled since the last update.
  bool unscale(std::span<const Tensor> parameters);
  bool unscale(std::initializer_list<Tensor> parameters) { return unscale({parameters.begin(), parameters.size()}); }
  /// The scale of the next step: times backoff_factor unless finite, times growth_factor after growth_interval finite
  /// steps in a row, within the range of f32.
  void update(bool finite) noexcept;
  /// Unscales what was not yet, steps if all its gradients were finite, and updates; says whether it stepped. For one
  /// optimizer: Error if parameters were unscaled that are none of its, whose gradients the next scale does not fit,
  /// if nobody asked for the scale since the last update, so that these are another's, and if a loss was scaled after
  /// gradients had been unscaled. Whoever leaves a step out, by an error too, calls update.
  bool step(Optimizer&);

  struct State {
    double scale = 0.0;
    std::int64_t finite_steps = 0;  ///< finite steps in a row since the scale last changed
  };
  const State& state() const noexcept { return state_; }
  void load_state(const State&);  ///< throws Error for what cannot be
  /// The state as text, exactly: for a checkpoint's notes.
  std::string to_text() const;
  void load_text(const std::string&);

 private:
  struct Unscaled {
    Tensor parameter;  // keeps the address taken
    bool finite;
  };

  GradientScalerOptions options_;
  State state_;
  mutable bool scale_was_asked_ = true;        // false: nobody called scale() since the last update
  mutable bool scaled_after_unscale_ = false;  // a loss was scaled, whose gradients are not those that were unscaled
  std::unordered_map<const void*, Unscaled> unscaled_;  // parameters unscaled since the last update, by identity
};

/// True if no element of the parameters' gradients is NaN or infinite.
bool gradients_are_finite(std::span<const Tensor> parameters);
void multiply_gradients(std::span<const Tensor> parameters, double factor);  ///< multiplies them in place

}  // namespace tutti
