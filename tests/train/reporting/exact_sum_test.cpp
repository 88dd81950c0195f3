// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/train/reporting/exact_sum.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

}  // namespace

TEST_CASE("ExactSum: rounds once") {
  CHECK(sum_of({}) == 0.0);
  CHECK(sum_of({1e100, 1.0, -1e100}) == 1.0);
  CHECK(sum_of(std::vector<double>(10, 0.1)) == 1.0);
  CHECK(sum_of({1.0, 0x1p-53}) == 1.0);             // half a place: to even
  CHECK(sum_of({1.0, 0x1p-53, 0x1p-100}) > 1.0);    // more than half
  CHECK(sum_of({1.0, 0x1p-53, -0x1p-100}) == 1.0);  // less
  CHECK(sum_of({1.0 + 0x1p-52, 0x1p-53, -0x1p-100}) == 1.0 + 0x1p-52);
  CHECK(sum_of({-1.0, -0x1p-53, -0x1p-100}) < -1.0);
}

TEST_CASE("ExactSum: the same bits in any order and division") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-60.0, 60.0);
  std::vector<double> values;
  for (int i = 0; i < 500; ++i) values.push_back((i % 2 == 0 ? 1.0 : -1.0) * std::exp2(exponent(random)));
  const double expected = sum_of(values);
  for (int trial = 0; trial < 20; ++trial) {
    std::ranges::shuffle(values, random);
    ExactSum parts[3];
    for (std::size_t i = 0; i < values.size(); ++i) parts[i * i % 3].add(values[i]);
    parts[2].merge(parts[0]);
    parts[2].merge(parts[1]);
    CHECK(parts[2].value() == expected);
  }
  ExactSum twice;
  for (const double value : values) twice.add(value);
  twice.merge(twice);
  CHECK(twice.value() == 2.0 * expected);
}

TEST_CASE("ExactSum: infinities and NaN as in a plain sum") {
  CHECK(sum_of({1.0, INFINITY, 2.0, -1e300}) == INFINITY);
  CHECK(std::isnan(sum_of({INFINITY, 1.0, -INFINITY})));
  CHECK(std::isnan(sum_of({NAN, 1.0})));
  CHECK(sum_of({1e308, 1e308, 1.0}) == INFINITY);
}

TEST_SUITE_END();
