// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/parts/softmax_terms.h>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti::cuda_kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Total = ExponentialSum<double>;

/// Joins two halves, each added one by one.
Total total_of(const std::vector<double>& values, std::size_t split) {
  Total first;
  Total second;
  for (std::size_t i = 0; i < values.size(); ++i) (i < split ? first : second).add(values[i]);
  return Total::combine(first, second);
}

TEST_CASE("softmax terms: one pass finds what two would, however it is split") {
  const std::vector<double> values{0.5, -3.0, 700.0, 2.0, 701.0, -kInfinity, 699.5};
  double expected = 0.0;
  for (const double x : values) expected += std::exp(x - 701.0);
  for (std::size_t split = 0; split <= values.size(); ++split) {
    CHECK(total_of(values, split).largest == 701.0);
    CHECK(total_of(values, split).sum == doctest::Approx(expected).epsilon(1e-14));
  }
}

TEST_CASE("softmax terms: NaN and infinities end as they do in two passes") {
  for (std::size_t split = 0; split <= 3; ++split) {
    CHECK(std::isnan(total_of({1.0, kNan, 2.0}, split).sum));
    CHECK(std::isnan(total_of({1.0, kInfinity, 2.0}, split).sum));
    CHECK(std::isnan(total_of({kInfinity, 1.0, kInfinity}, split).sum));
    CHECK(total_of({-kInfinity, -kInfinity, -kInfinity}, split).largest == -kInfinity);
    CHECK(total_of({-kInfinity, 4.0, -kInfinity}, split).sum == 1.0);
  }
  CHECK(total_of({}, 0).sum == 0.0);
}

}  // namespace
}  // namespace tutti::cuda_kernels

TEST_SUITE_END();
