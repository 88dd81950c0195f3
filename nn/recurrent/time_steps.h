// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>

#include <vector>

namespace tutti {

/// Appends x[0], x[1], ... by halves: the gradient of a slice is as large as what it was cut from, and so costs
/// time * log(time) here instead of time^2. x has a step or more.
inline void append_steps(const Tensor& x, std::vector<Tensor>& steps) {
  const std::int64_t length = x.length(0);
  if (length == 1) {
    steps.push_back(squeeze(x, {0}));
    return;
  }
  append_steps(slice(x, 0, 0, length / 2), steps);
  append_steps(slice(x, 0, length / 2, length), steps);
}

/// x[0], x[1], ...: none of no step.
inline std::vector<Tensor> time_steps(const Tensor& x) {
  std::vector<Tensor> steps;
  if (x.length(0) > 0) append_steps(x, steps);
  return steps;
}

}  // namespace tutti
