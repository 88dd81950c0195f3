// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/gradient_scaler.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/steps/option_checks.h>
#include <tutti/optim/steps/owned_gradients.h>
#include <tutti/optim/steps/state_text.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

void check_scaler_options(const GradientScalerOptions& options) {
  check_positive("GradientScaler", "initial_scale", options.initial_scale);
  check_positive("GradientScaler", "growth_factor", options.growth_factor);
  check_positive("GradientScaler", "backoff_factor", options.backoff_factor);
  if (options.growth_factor <= 1.0)
    raise("[GradientScaler] growth_factor must be above 1, got {}", options.growth_factor);
  if (options.backoff_factor >= 1.0)
    raise("[GradientScaler] backoff_factor must be below 1, got {}", options.backoff_factor);
  if (options.growth_interval < 1)
    raise("[GradientScaler] growth_interval must be positive, got {}", options.growth_interval);
}

bool is_finite(const Array& extreme) { return std::isfinite(extreme.item<double>()); }

// The squares may overflow where the values do not.
bool is_finite(const Array& values, const Array& square_sum) {
  return is_finite(square_sum) ||
         (is_finite(reduce(Reduction::max, values, {})) && is_finite(reduce(Reduction::min, values, {})));
}

}  // namespace

bool gradients_are_finite(std::span<const Tensor> parameters) {
  const std::vector<OwnedGradient> gradients = owned_gradients("gradient_scaler", parameters);
  std::vector<Array> sums;  // all queued before the first is read
  for (const OwnedGradient& gradient : gradients)
    sums.push_back(reduce(Reduction::sum_of_squares, gradient.values, {}));
  bool finite = true;
  for (std::size_t i = 0; i < gradients.size() && finite; ++i) finite = is_finite(gradients[i].values, sums[i]);
  return finite;
}

void multiply_gradients(std::span<const Tensor> parameters, double factor) {
  if (factor == 1.0) return;
  for (const OwnedGradient& gradient : owned_gradients("gradient_scaler", parameters))
    change_in_place(gradient, [&](const Array& values) { scale_in_place(values, factor); });
}

GradientScaler::GradientScaler(const GradientScalerOptions& options) : options_(options) {
  check_scaler_options(options);
  state_.scale = options.initial_scale;
}

Tensor GradientScaler::scale(const Tensor& loss) const {
  scaled_after_unscale_ = scaled_after_unscale_ || !unscaled_.empty();
  return loss * scale();
}

bool GradientScaler::unscale(std::span<const Tensor> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].dtype() == DType::f16)
      raise<DTypeError>(
          "[GradientScaler] parameter {} is f16, whose gradients lose again what the scale has kept: keep "
          "parameters in f32 and cast them where they are used",
          i);
    if (unscaled_.contains(parameters[i].identity()))
      raise(
          "[GradientScaler] parameter {} was unscaled since the last update, and would be divided by the scale twice: "
          "call update after each step, or let step(optimizer) do it",
          i);
  }
  const bool finite = gradients_are_finite(parameters);
  if (finite) multiply_gradients(parameters, 1.0 / state_.scale);
  for (const Tensor& parameter : parameters) unscaled_.emplace(parameter.identity(), Unscaled{parameter, finite});
  return finite;
}

// Between the smallest and the largest f32, so that it stays a number in any dtype that has gradients of its own.
void GradientScaler::update(bool finite) noexcept {
  unscaled_.clear();
  scaled_after_unscale_ = false;
  scale_was_asked_ = false;
  constexpr double kSmallest = std::numeric_limits<float>::min();
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!finite) {
    state_ = {std::max(state_.scale * options_.backoff_factor, kSmallest), 0};
  } else if (++state_.finite_steps >= options_.growth_interval) {
    const double grown = state_.scale * options_.growth_factor;
    state_ = {grown <= kLargest ? grown : state_.scale, 0};
  }
}

bool GradientScaler::step(Optimizer& optimizer) {
  if (!scale_was_asked_)
    raise(
        "[GradientScaler] no loss was scaled since the last update, whose gradients this step could take: with several "
        "optimizers, unscale the parameters of each, call its own step(), and update of the scaler once");
  if (scaled_after_unscale_)
    raise(
        "[GradientScaler] a loss was scaled after gradients had been unscaled, so that some may be divided by the "
        "scale and some not: call update after each step, also after one that failed or was left out");
  bool finite = true;
  std::size_t known = 0;
  std::vector<Tensor> scaled;
  for (const Tensor& parameter : optimizer.parameters()) {
    const auto found = unscaled_.find(parameter.identity());
    if (found == unscaled_.end())
      scaled.push_back(parameter);
    else
      finite = finite && found->second.finite, ++known;
  }
  if (known != unscaled_.size())
    raise(
        "[GradientScaler] {} parameters were unscaled that are none of this optimizer's: with several, call step() of "
        "each, and update of the scaler once",
        unscaled_.size() - known);
  finite = unscale(scaled) && finite;
  if (finite) optimizer.step();
  update(finite);
  return finite;
}

void GradientScaler::load_state(const State& state) {
  check_positive("GradientScaler", "the scale", state.scale);
  if (state.finite_steps < 0) raise("[GradientScaler] a state counts from 0, got {}", state.finite_steps);
  state_ = state;
  scaled_after_unscale_ = false;
  scale_was_asked_ = true;
  unscaled_.clear();
}

std::string GradientScaler::to_text() const { return state_text({state_.scale}, {state_.finite_steps}); }

void GradientScaler::load_text(const std::string& text) {
  const auto [numbers, counts] = parse_state_text("GradientScaler", text, 1, 1);
  load_state({numbers[0], counts[0]});
}

}  // namespace tutti
