// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rules of optimizer_rules.h for one element, with X = a scalar (CUDA threads) or a pack of them (CPU loops). A
// formula gives the new parameter and changes the state.

#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/formulas/optimizer_rules.h>

#include <cmath>

namespace tutti {

template <class X, bool has_momentum> struct SgdFormula {
  static constexpr int kStates = has_momentum ? 1 : 0;
  X rate;
  X momentum;
  X fresh;
  X decay;
  X scale;
  bool nesterov;
  bool first;

  explicit SgdFormula(const SgdStep& step)
      : rate(step.rate),
        momentum(step.momentum),
        fresh(1.0 - step.dampening),
        decay(step.weight_decay),
        scale(step.gradient_scale),
        nesterov(step.nesterov),
        first(step.first) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    const X gradient = scale * raw_gradient + decay * parameter;
    if constexpr (has_momentum) {
      state[0] = first ? gradient : momentum * state[0] + fresh * gradient;
      return parameter - rate * (nesterov ? gradient + momentum * state[0] : state[0]);
    } else {
      return parameter - rate * gradient;
    }
  }
};

/// Running averages of a gradient and of its square, the first two states of Adam and of what comes from it.
template <class X> struct Moments {
  X beta1;
  X beta2;
  X rest1;
  X rest2;

  template <class Step> explicit Moments(const Step& step)
      : beta1(step.beta1), beta2(step.beta2), rest1(1.0 - step.beta1), rest2(1.0 - step.beta2) {}

  TUTTI_HOST_DEVICE void take(const X& gradient, X* state) const {
    state[0] = beta1 * state[0] + rest1 * gradient;
    state[1] = beta2 * state[1] + rest2 * gradient * gradient;
  }
};

/// Divisors of these averages, which start at 0: 1 - beta1^step for the mean, sqrt(1 - beta2^step) for the root of the
/// mean square. Formulas have them in their rate and epsilon:
/// rate * (m / c1) / (sqrt(v / c2) + eps) = rate sqrt(c2) / c1 * m / (sqrt(v) + eps sqrt(c2))
struct BiasCorrection {
  double mean;
  double square_root;

  template <class Step> explicit BiasCorrection(const Step& step)
      : mean(1.0 - std::pow(step.beta1, static_cast<double>(step.step))),
        square_root(std::sqrt(1.0 - std::pow(step.beta2, static_cast<double>(step.step)))) {}
};

template <class X, bool amsgrad> struct AdamFormula {
  static constexpr int kStates = amsgrad ? 3 : 2;
  X rate;
  X epsilon;
  X decay;
  Moments<X> moments;

  explicit AdamFormula(const AdamStep& step) : AdamFormula(step, BiasCorrection(step)) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    using elementwise::select;
    using std::sqrt;
    const X gradient = raw_gradient + decay * parameter;
    moments.take(gradient, state);
    if constexpr (amsgrad) {
      state[2] = select(state[2] > state[1], state[2], state[1]);
      return parameter - rate * state[0] / (sqrt(state[2]) + epsilon);
    } else {
      return parameter - rate * state[0] / (sqrt(state[1]) + epsilon);
    }
  }

 private:
  AdamFormula(const AdamStep& step, const BiasCorrection& correction)
      : rate(step.rate * correction.square_root / correction.mean),
        epsilon(step.epsilon * correction.square_root),
        decay(step.weight_decay),
        moments(step) {}
};

template <class X> struct AdamWFormula {
  static constexpr int kStates = 2;
  X rate;
  X epsilon;
  X keep;
  Moments<X> moments;

  explicit AdamWFormula(const AdamWStep& step) : AdamWFormula(step, BiasCorrection(step)) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& gradient, X* state) const {
    using std::sqrt;
    moments.take(gradient, state);
    return keep * parameter - rate * state[0] / (sqrt(state[1]) + epsilon);
  }

 private:
  AdamWFormula(const AdamWStep& step, const BiasCorrection& correction)
      : rate(step.rate * correction.square_root / correction.mean),
        epsilon(step.epsilon * correction.square_root),
        keep(1.0 - step.rate * step.weight_decay),
        moments(step) {}
};

template <class X, bool centered, bool has_momentum> struct RmspropFormula {
  static constexpr int kStates = 1 + (centered ? 1 : 0) + (has_momentum ? 1 : 0);
  X rate;
  X epsilon;
  X decay;
  X momentum;
  X alpha;
  X rest;

  explicit RmspropFormula(const RmspropStep& step)
      : rate(step.rate),
        epsilon(step.epsilon),
        decay(step.weight_decay),
        momentum(step.momentum),
        alpha(step.alpha),
        rest(1.0 - step.alpha) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    using elementwise::select;
    using std::sqrt;
    const X gradient = raw_gradient + decay * parameter;
    state[0] = alpha * state[0] + rest * gradient * gradient;
    X variance = state[0];
    if constexpr (centered) {
      state[1] = alpha * state[1] + rest * gradient;
      variance = variance - state[1] * state[1];
      variance = select(variance < X(0.0), X(0.0), variance);  // equal gradients give 0, but for rounding
    }
    const X change = gradient / (sqrt(variance) + epsilon);
    if constexpr (has_momentum) {
      X& velocity = state[kStates - 1];
      velocity = momentum * velocity + change;
      return parameter - rate * velocity;
    } else {
      return parameter - rate * change;
    }
  }
};

template <class X> struct AdagradFormula {
  static constexpr int kStates = 1;
  X rate;
  X epsilon;
  X decay;

  explicit AdagradFormula(const AdagradStep& step) : rate(step.rate), epsilon(step.epsilon), decay(step.weight_decay) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    using std::sqrt;
    const X gradient = raw_gradient + decay * parameter;
    state[0] = state[0] + gradient * gradient;
    return parameter - rate * gradient / (sqrt(state[0]) + epsilon);
  }
};

template <class X> struct AdadeltaFormula {
  static constexpr int kStates = 2;
  X rate;
  X rho;
  X rest;
  X epsilon;
  X decay;

  explicit AdadeltaFormula(const AdadeltaStep& step)
      : rate(step.rate), rho(step.rho), rest(1.0 - step.rho), epsilon(step.epsilon), decay(step.weight_decay) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    using std::sqrt;
    const X gradient = raw_gradient + decay * parameter;
    state[0] = rho * state[0] + rest * gradient * gradient;
    const X change = sqrt(state[1] + epsilon) / sqrt(state[0] + epsilon) * gradient;
    state[1] = rho * state[1] + rest * change * change;
    return parameter - rate * change;
  }
};

/// `rectified`: the variance is known well enough to divide by it.
template <class X, bool rectified> struct RAdamFormula {
  static constexpr int kStates = 2;
  X rate;
  X epsilon;
  X keep;
  X decay;
  Moments<X> moments;

  RAdamFormula(const RAdamStep& step, double rectification) : RAdamFormula(step, BiasCorrection(step), rectification) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X* state) const {
    using std::sqrt;
    const X gradient = raw_gradient + decay * parameter;
    moments.take(gradient, state);
    if constexpr (rectified)
      return keep * parameter - rate * state[0] / (sqrt(state[1]) + epsilon);
    else
      return keep * parameter - rate * state[0];
  }

 private:
  RAdamFormula(const RAdamStep& step, const BiasCorrection& correction, double rectification)
      : rate(step.rate / correction.mean * (rectified ? rectification * correction.square_root : 1.0)),
        epsilon(step.epsilon),
        keep(step.decoupled ? 1.0 - step.rate * step.weight_decay : 1.0),
        decay(step.decoupled ? 0.0 : step.weight_decay),
        moments(step) {}
};

/// 0: the variance is not known yet, the averages being too short.
inline double rectification_of(const RAdamStep& step) {
  const double power = std::pow(step.beta2, static_cast<double>(step.step));
  const double most = 2.0 / (1.0 - step.beta2) - 1.0;
  const double length = most - 2.0 * static_cast<double>(step.step) * power / (1.0 - power);
  if (!(length > 5.0)) return 0.0;
  return std::sqrt((length - 4.0) * (length - 2.0) * most / ((most - 4.0) * (most - 2.0) * length));
}

template <class X> struct LionFormula {
  static constexpr int kStates = 1;
  X rate;
  X keep;
  X beta1;
  X beta2;
  X rest1;
  X rest2;

  explicit LionFormula(const LionStep& step)
      : rate(step.rate),
        keep(1.0 - step.rate * step.weight_decay),
        beta1(step.beta1),
        beta2(step.beta2),
        rest1(1.0 - step.beta1),
        rest2(1.0 - step.beta2) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& gradient, X* state) const {
    using elementwise::select;
    const X mixed = beta1 * state[0] + rest1 * gradient;
    const X sign = select(mixed > X(0.0), X(1.0), select(mixed < X(0.0), X(-1.0), mixed));  // 0 and NaN stay
    state[0] = beta2 * state[0] + rest2 * gradient;
    return keep * parameter - rate * sign;
  }
};

template <class X> struct LambFormula {
  static constexpr int kStates = 3;
  X scale;
  X epsilon;
  X decay;
  Moments<X> moments;

  explicit LambFormula(const LambDirection& step) : LambFormula(step, BiasCorrection(step)) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& gradient, X* state) const {
    using std::sqrt;
    moments.take(gradient, state);
    state[2] = scale * state[0] / (sqrt(state[1]) + epsilon) + decay * parameter;
    return parameter;
  }

 private:
  LambFormula(const LambDirection& step, const BiasCorrection& correction)
      : scale(correction.square_root / correction.mean),
        epsilon(step.epsilon * correction.square_root),
        decay(step.weight_decay),
        moments(step) {}
};

namespace detail {
template <class X, class F> void visit_rule(const SgdStep& step, const F& f) {
  step.momentum != 0.0 ? f(SgdFormula<X, true>(step)) : f(SgdFormula<X, false>(step));
}
template <class X, class F> void visit_rule(const AdamStep& step, const F& f) {
  step.amsgrad ? f(AdamFormula<X, true>(step)) : f(AdamFormula<X, false>(step));
}
template <class X, class F> void visit_rule(const AdamWStep& step, const F& f) { f(AdamWFormula<X>(step)); }
template <class X, class F> void visit_rule(const RmspropStep& step, const F& f) {
  if (step.centered)
    step.momentum != 0.0 ? f(RmspropFormula<X, true, true>(step)) : f(RmspropFormula<X, true, false>(step));
  else
    step.momentum != 0.0 ? f(RmspropFormula<X, false, true>(step)) : f(RmspropFormula<X, false, false>(step));
}
template <class X, class F> void visit_rule(const AdagradStep& step, const F& f) { f(AdagradFormula<X>(step)); }
template <class X, class F> void visit_rule(const AdadeltaStep& step, const F& f) { f(AdadeltaFormula<X>(step)); }
template <class X, class F> void visit_rule(const RAdamStep& step, const F& f) {
  const double rectification = rectification_of(step);
  rectification > 0.0 ? f(RAdamFormula<X, true>(step, rectification)) : f(RAdamFormula<X, false>(step, 0.0));
}
template <class X, class F> void visit_rule(const LionStep& step, const F& f) { f(LionFormula<X>(step)); }
template <class X, class F> void visit_rule(const LambDirection& step, const F& f) { f(LambFormula<X>(step)); }
}  // namespace detail

/// Calls `f` with the rule's formula.
template <class X, class F> void visit_formula(const OptimizerRule& rule, const F& f) {
  std::visit([&](const auto& step) { detail::visit_rule<X>(step, f); }, rule);
}

}  // namespace tutti
