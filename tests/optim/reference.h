// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/optim/gradients.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace tutti::testing {

inline double gradient_at(int step, std::size_t element) {
  return std::sin(1.7 * step + 0.3 * static_cast<double>(element));
}

/// Ten steps of an optimizer beside `Scalar`, which does the same to one number in f64:
/// `Scalar{rate, options, value}.step(gradient)`.
template <class T, class Optimizer, class Scalar, class Options>
void compare_with_scalar(double rate, const Options& options, double tolerance) {
  constexpr std::size_t kSize = 37;  // no multiple of any pack
  std::vector<T> start;
  std::vector<Scalar> reference;
  for (std::size_t i = 0; i < kSize; ++i) {
    start.push_back(static_cast<T>(std::cos(static_cast<double>(i))));
    reference.push_back({rate, options, static_cast<double>(start.back())});
  }
  const Tensor p = make_parameter(start);
  Optimizer optimizer({p}, rate, options);
  for (int step = 0; step < 10; ++step) {
    std::vector<T> gradient;
    for (std::size_t i = 0; i < kSize; ++i) {
      gradient.push_back(static_cast<T>(gradient_at(step, i)));
      reference[i].step(static_cast<double>(gradient.back()));
    }
    set_gradient(p, gradient);
    optimizer.step();
  }
  const std::vector<T> values = p.template to_vector<T>();
  for (std::size_t i = 0; i < kSize; ++i) CHECK(std::abs(values[i] - reference[i].value) < tolerance);
}

}  // namespace tutti::testing
