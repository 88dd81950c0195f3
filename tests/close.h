// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace tutti::testing {

/// Checks that each number is the expected one, but for `epsilon` times its size, and times 1 at the least.
template <class T>
void check_close(const std::vector<T>& found, const std::vector<T>& expected, double epsilon = 1e-12) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(epsilon));
  }
}
inline void check_close(const Tensor& found, const std::vector<double>& expected, double epsilon = 1e-12) {
  check_close(cast(found, DType::f64).to_vector<double>(), expected, epsilon);
}
inline void check_close(const Tensor& found, const Tensor& expected, double epsilon = 1e-12) {
  REQUIRE(found.shape() == expected.shape());
  check_close(found, cast(expected, DType::f64).to_vector<double>(), epsilon);
}

}  // namespace tutti::testing
