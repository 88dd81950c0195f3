// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/compression/low_rank.h>

#include <tutti/tests/distributed/compression/matrices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

double inner(const Floats& rows, std::int64_t length, std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i)
    sum += double{rows[static_cast<std::size_t>(a * length + i)]} * rows[static_cast<std::size_t>(b * length + i)];
  return sum;
}

}  // namespace

TEST_CASE("low_rank: products are those of the definition") {
  for (const auto& [rows, columns, rank] : {low_rank::Size{1, 1, 1}, {5, 3, 2}, {7, 33, 4}, {40, 17, 3}}) {
    const low_rank::Size size{rows, columns, rank};
    const Floats matrix = random_floats(rows * columns, 1, 0);
    const Floats right = random_floats(rank * columns, 2, 0);
    Floats left(static_cast<std::size_t>(rank * rows));
    Floats back(static_cast<std::size_t>(rank * columns), 9.0F);
    Floats expanded(static_cast<std::size_t>(columns));
    low_rank::project_rows(size, matrix.data(), right.data(), left.data());
    low_rank::project_columns(size, matrix.data(), left.data(), back.data());
    const auto at = [](const Floats& values, std::int64_t i) { return double{values[static_cast<std::size_t>(i)]}; };
    for (std::int64_t k = 0; k < rank; ++k)
      for (std::int64_t r = 0; r < rows; ++r) {
        double want = 0;
        for (std::int64_t c = 0; c < columns; ++c) want += at(matrix, r * columns + c) * at(right, k * columns + c);
        CHECK(at(left, k * rows + r) == doctest::Approx(want).epsilon(1e-5));
      }
    for (std::int64_t k = 0; k < rank; ++k)
      for (std::int64_t c = 0; c < columns; ++c) {
        double want = 0;
        for (std::int64_t r = 0; r < rows; ++r) want += at(left, k * rows + r) * at(matrix, r * columns + c);
        CHECK(at(back, k * columns + c) == doctest::Approx(want).epsilon(1e-4));
      }
    low_rank::expand_row(size, left.data(), right.data(), rows - 1, expanded.data());
    for (std::int64_t c = 0; c < columns; ++c) {
      double want = 0;
      for (std::int64_t k = 0; k < rank; ++k) want += at(left, k * rows + rows - 1) * at(right, k * columns + c);
      CHECK(at(expanded, c) == doctest::Approx(want).epsilon(1e-4));
    }
  }
}

TEST_CASE("low_rank: rows become orthonormal, also when they are nearly parallel or of any size") {
  constexpr std::int64_t kLength = 50;
  Floats rows = random_floats(4 * kLength, 3, 0);
  for (std::size_t i = 0; i < kLength; ++i) {
    rows[kLength + i] = rows[i] + 1e-3F * rows[kLength + i];
    rows[2 * kLength + i] *= 1e15F;
    rows[3 * kLength + i] *= 1e-20F;
  }
  low_rank::orthonormalize(rows.data(), 4, kLength);
  for (std::int64_t a = 0; a < 4; ++a)
    for (std::int64_t b = 0; b < 4; ++b) CHECK(std::fabs(inner(rows, kLength, a, b) - (a == b ? 1.0 : 0.0)) < 1e-6);
}

TEST_CASE("low_rank: a row with a direction becomes 1 long, others stay") {
  Floats row = {3e-30F, -4e-30F};
  CHECK(low_rank::normalize(row.data(), 2));
  CHECK(row[0] == doctest::Approx(0.6));
  CHECK(row[1] == doctest::Approx(-0.8));
  for (const float other : {0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Floats kept = {0, other};
    CHECK_FALSE(low_rank::normalize(kept.data(), 2));
    CHECK(kept[0] == 0.0F);
  }
}

TEST_CASE("low_rank: a dependent row becomes zero, a NaN stays") {
  Floats rows = {1, 2, 2, -2, -4, -4, 0, 0, 0, 0, 1, 0};
  low_rank::orthonormalize(rows.data(), 4, 3);
  for (std::size_t i = 3; i < 9; ++i) CHECK(rows[i] == 0.0F);
  CHECK(std::fabs(inner(rows, 3, 0, 3)) < 1e-6);
  CHECK(inner(rows, 3, 3, 3) == doctest::Approx(1));
  Floats bad = {1, std::numeric_limits<float>::quiet_NaN()};
  low_rank::orthonormalize(bad.data(), 1, 2);
  CHECK(std::isnan(bad[0]));
}

TEST_SUITE_END();
