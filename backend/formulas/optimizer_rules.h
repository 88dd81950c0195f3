// SPDX-License-Identifier: Apache-2.0
#pragma once

// Update rules that treat each element by itself, for Backend::optimizer_step. `p` is the parameter, `g` its gradient;
// `step` counts from 1. The state arrays come in the order in which they are named. Formulas:
// optimizer_rule_formulas.h.

#include <tutti/backend/array.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

namespace tutti {

/// PyTorch's definition. g' = gradient_scale g + weight_decay p;  v = first ? g' : momentum v + (1 - dampening) g';
/// p -= rate (nesterov ? g' + momentum v : v). State: v if momentum is not 0; without, v is g'.
struct SgdStep {
  double rate = 0.0;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;
  bool nesterov = false;
  bool first = false;  ///< true in the first step, which does not read v
};

/// Kingma and Ba, "Adam" (2015), algorithm 1; amsgrad: Reddi, Kale and Kumar (2018). g += weight_decay p first.
/// State: mean, square, and with amsgrad the largest square so far.
struct AdamStep {
  double rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool amsgrad = false;
  std::int64_t step = 1;
};

/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2: Adam, and p also loses
/// rate weight_decay p. State: mean, square.
struct AdamWStep {
  double rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  std::int64_t step = 1;
};

/// Tieleman and Hinton (2012); centered: Graves (2013). g += weight_decay p;  s = alpha s + (1 - alpha) g^2;
/// a = alpha a + (1 - alpha) g;  v = momentum v + g / (sqrt(s - a^2) + epsilon);  p -= rate v.
/// State: s, then a if centered, then v if momentum is not 0.
struct RmspropStep {
  double rate = 0.0;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
};

/// Duchi, Hazan and Singer (2011). g += weight_decay p;  s += g^2;  p -= rate g / (sqrt(s) + epsilon). State: s.
struct AdagradStep {
  double rate = 0.0;
  double epsilon = 1e-10;
  double weight_decay = 0.0;
};

/// Zeiler, "ADADELTA" (2012). g += weight_decay p;  s = rho s + (1 - rho) g^2;
/// d = sqrt(a + epsilon) / sqrt(s + epsilon) g;  a = rho a + (1 - rho) d^2;  p -= rate d. State: s, a.
struct AdadeltaStep {
  double rate = 0.0;
  double rho = 0.9;
  double epsilon = 1e-6;
  double weight_decay = 0.0;
};

/// Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond" (2020), algorithm 2. Decoupled, p first loses
/// rate weight_decay p; else g += weight_decay p. With r = 2 / (1 - beta2) - 1 - 2 step beta2^step / (1 - beta2^step):
/// Adam times the rectification where r > 5, and p -= rate m' before. State: mean, square.
struct RAdamStep {
  double rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;
  std::int64_t step = 1;
};

/// Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), program 1.
/// p -= rate (sign(beta1 m + (1 - beta1) g) + weight_decay p);  m = beta2 m + (1 - beta2) g. State: m.
struct LionStep {
  double rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
};

/// The first half of LAMB (You et al., 2020, algorithm 2): leaves p, and writes what p is to move along,
/// m' / (sqrt(v') + epsilon) + weight_decay p with the corrected m' and v'. State: m, v, and that direction.
struct LambDirection {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.0;
  std::int64_t step = 1;
};

using OptimizerRule = std::variant<SgdStep, AdamStep, AdamWStep, RmspropStep, AdagradStep, AdadeltaStep, RAdamStep,
                                   LionStep, LambDirection>;

/// One parameter of an optimizer step. All arrays are contiguous, of one shape, floating dtype and device.
struct RuleOperands {
  static constexpr std::size_t kMostStates = 3;

  Array parameter;
  Array gradient;
  std::array<Array, kMostStates> state;  ///< arrays of the rule's state, as many as it has
};

}  // namespace tutti
