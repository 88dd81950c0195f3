// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/match.h>

#include <tutti/testing/devices/closeness.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tutti::testing {
namespace {

double smallest(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::denorm_min();
    case DType::f32: return std::numeric_limits<float>::denorm_min();
    case DType::bf16: return 0x1p-133;
    case DType::f16: return 0x1p-24;
    default: return 0;
  }
}

/// Integers of 64 bits are more than a double holds.
std::string integer_difference(const Array& expected, const Array& found) {
  const auto x = expected.cast(DType::i64).to_vector<std::int64_t>();
  const auto y = found.cast(DType::i64).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i]) return fmt::format("element {} is {}, not {}", i, y[i], x[i]);
  return {};
}

std::string floating_difference(const Array& expected, const Array& found, const Tolerance& tolerance) {
  const DType dtype = expected.dtype();
  const auto x = expected.cast(DType::f64).to_vector<double>();
  const auto y = found.cast(DType::f64).to_vector<double>();
  const double relative = tolerance.relative > 0 ? tolerance.relative : tolerance_of(dtype);
  const double floor = tolerance.each ? 0 : largest_finite(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool zeros = x[i] == 0 && y[i] == 0 && tolerance.signed_zeros;
    const double allowed = relative * std::max(std::abs(x[i]), floor) + 2 * smallest(dtype);
    if (!close(x[i], y[i], allowed) || (zeros && std::signbit(x[i]) != std::signbit(y[i])))
      return fmt::format("element {} is {:.17g}, not {:.17g}", i, y[i], x[i]);
  }
  return {};
}

}  // namespace

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return tests_run_on_cpu() ? 4e-6 : 1e-5;
    case DType::bf16: return 0x1p-7;
    case DType::f16: return 0x1p-10;
    default: return 0;
  }
}

std::string difference(const Array& expected, const Array& found, const Tolerance& tolerance) {
  if (expected.shape() != found.shape() || expected.dtype() != found.dtype())
    return fmt::format("is {} {}, not {} {}", to_string(found.dtype()), to_string(found.shape()),
                       to_string(expected.dtype()), to_string(expected.shape()));
  const Array there = found.to(expected.device());
  return is_floating(expected.dtype()) ? floating_difference(expected, there, tolerance)
                                       : integer_difference(expected, there);
}

}  // namespace tutti::testing
