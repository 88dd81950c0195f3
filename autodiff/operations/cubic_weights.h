// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), with a = -0.75 as PyTorch's bicubic.

#include <array>

namespace tutti {

/// Weights of the elements at -1, 0, 1 and 2 for what lies at `t`, from 0 to 1. X is a number or a Tensor.
template <class X> std::array<X, 4> cubic_weights(const X& t) {
  constexpr double kA = -0.75;
  const auto near = [&](const X& d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [&](const X& d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

}  // namespace tutti
