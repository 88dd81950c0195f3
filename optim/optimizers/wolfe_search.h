// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <functional>
#include <vector>

namespace tutti {

/// A point of the line x + step d, with what was found there.
struct LinePoint {
  double step = 0.0;
  double loss = 0.0;
  double slope = 0.0;  ///< slope of the loss along d
  std::vector<Tensor> gradient = {};
};

struct WolfeSearch {
  double first_step = 1.0;
  double longest = 1.0;            ///< the largest |d|
  double tolerance_change = 1e-9;  ///< change of x below which the search ends
  int evaluations = 25;            ///< most evaluations after the first; >= 0
};

/// A step whose point has the strong Wolfe conditions (with constants 1e-4 and 0.9), or the best that was found:
/// Nocedal and Wright, "Numerical Optimization" (2006), algorithms 3.5 and 3.6, with cubic interpolation (3.59). It
/// tries the steps that PyTorch's LBFGS tries. `origin`: the point of step 0, whose slope is negative. A loss that is
/// not finite counts as infinite.
LinePoint wolfe_search(const std::function<LinePoint(double step)>& evaluate, const LinePoint& origin,
                       const WolfeSearch&);

}  // namespace tutti
