// SPDX-License-Identifier: Apache-2.0
#pragma once

// Names, checks and options of Adam's running averages, for Adam, AdamW, RAdam and Lamb. Their options have beta1,
// beta2, epsilon and weight_decay.

#include <tutti/optim/steps/option_checks.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Names of the state: running averages of the gradient and of its square.
inline std::vector<std::string> moment_names() { return {"mean", "square"}; }

/// Throws Error for an option outside its range.
template <class Options> void check_moments(std::string_view optimizer, const Options& options) {
  check_share(optimizer, "beta1", options.beta1);
  check_share(optimizer, "beta2", options.beta2);
  check_positive(optimizer, "epsilon", options.epsilon);
  check_not_negative(optimizer, "weight_decay", options.weight_decay);
}

/// Options for the rows of a sparse gradient: torch.optim.SparseAdam adds epsilon to sqrt(v) before that is corrected
/// for bias, where Adam's rules add theirs to the corrected one.
template <class Options> Options options_of_rows(Options options, std::int64_t step) {
  options.epsilon /= std::sqrt(1.0 - std::pow(options.beta2, static_cast<double>(step)));
  return options;
}

}  // namespace tutti
