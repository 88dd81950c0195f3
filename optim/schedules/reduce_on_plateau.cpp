// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/reduce_on_plateau.h>

#include <tutti/backend/raise.h>
#include <tutti/optim/steps/option_checks.h>
#include <tutti/optim/steps/state_text.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

void check_plateau_options(const PlateauOptions& options) {
  check_positive("ReduceOnPlateau", "factor", options.factor);
  if (options.factor >= 1.0) raise("[ReduceOnPlateau] factor must be below 1, got {}", options.factor);
  if (options.patience < 0 || options.cooldown < 0)
    raise("[ReduceOnPlateau] patience and cooldown must not be negative, got {} and {}", options.patience,
          options.cooldown);
  check_not_negative("ReduceOnPlateau", "threshold", options.threshold);
  check_not_negative("ReduceOnPlateau", "lowest", options.lowest);
  check_not_negative("ReduceOnPlateau", "epsilon", options.epsilon);
}

}  // namespace

ReduceOnPlateau::ReduceOnPlateau(double learning_rate, const PlateauOptions& options) : options_(options) {
  check_plateau_options(options);
  check_not_negative("ReduceOnPlateau", "the learning rate", learning_rate);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  state_ = {learning_rate, options.mode == PlateauOptions::Mode::min ? kInfinity : -kInfinity, 0, 0};
}

bool ReduceOnPlateau::is_better(double metric) const {
  const double sign = options_.mode == PlateauOptions::Mode::min ? -1.0 : 1.0;
  const bool relative = options_.threshold_mode == PlateauOptions::Threshold::relative;
  const double bound =
      relative ? state_.best * (1.0 + sign * options_.threshold) : state_.best + sign * options_.threshold;
  return sign < 0.0 ? metric < bound : metric > bound;
}

double ReduceOnPlateau::update(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad = 0;
  } else {
    ++state_.bad;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad = 0;
  }
  if (state_.bad > options_.patience) {
    const double next = std::max(state_.learning_rate * options_.factor, options_.lowest);
    if (state_.learning_rate - next > options_.epsilon) state_.learning_rate = next;
    state_.cooldown = options_.cooldown;
    state_.bad = 0;
  }
  return state_.learning_rate;
}

void ReduceOnPlateau::load_state(const State& state) {
  check_not_negative("ReduceOnPlateau", "the learning rate", state.learning_rate);
  if (state.bad < 0 || state.cooldown < 0)
    raise("[ReduceOnPlateau] a state counts from 0, got {} and {}", state.bad, state.cooldown);
  state_ = state;
}

std::string ReduceOnPlateau::to_text() const {
  return state_text({state_.learning_rate, state_.best}, {state_.bad, state_.cooldown});
}

void ReduceOnPlateau::load_text(const std::string& text) {
  const auto [numbers, counts] = parse_state_text("ReduceOnPlateau", text, 2, 2);
  load_state({numbers[0], numbers[1], counts[0], counts[1]});
}

}  // namespace tutti
