// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/compression/low_rank.h>

#include <algorithm>
#include <cmath>

namespace tutti::low_rank {

namespace {

// Lanes that the compiler may keep in one vector; the order of additions does not depend on whether it does.
template <class Sum> Sum dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  Sum lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<Sum>(a[i + lane]) * static_cast<Sum>(b[i + lane]);
  for (; i < count; ++i) lanes[i % kLanes] += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  Sum total = 0;
  for (const Sum lane : lanes) total += lane;
  return total;
}

void add_scaled(float* __restrict target, const float* __restrict source, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) target[i] += factor * source[i];
}

}  // namespace

void project_rows(const Size& size, const float* matrix, const float* right, float* left) {
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t k = 0; k < size.rank; ++k)
      left[k * size.rows + row] = dot<float>(matrix + row * size.columns, right + k * size.columns, size.columns);
}

void project_columns(const Size& size, const float* matrix, const float* left, float* right) {
  std::fill_n(right, size.rank * size.columns, 0.0F);
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t k = 0; k < size.rank; ++k)
      add_scaled(right + k * size.columns, matrix + row * size.columns, size.columns, left[k * size.rows + row]);
}

void expand_row(const Size& size, const float* left, const float* right, std::int64_t row, float* result) {
  std::fill_n(result, size.columns, 0.0F);
  for (std::int64_t k = 0; k < size.rank; ++k)
    add_scaled(result, right + k * size.columns, size.columns, left[k * size.rows + row]);
}

void orthonormalize(float* rows, std::int64_t count, std::int64_t length) {
  constexpr double kDependent = 1e-12;  // of the squared norm: rounding has left nothing else
  for (std::int64_t k = 0; k < count; ++k) {
    float* row = rows + k * length;
    const double before = dot<double>(row, row, length);
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t j = 0; j < k; ++j)
        add_scaled(row, rows + j * length, length, static_cast<float>(-dot<double>(row, rows + j * length, length)));
    const double after = dot<double>(row, row, length);
    if (after <= kDependent * before) {  // false for NaN, which stays one
      std::fill_n(row, length, 0.0F);
      continue;
    }
    const double factor = 1.0 / std::sqrt(after);
    for (std::int64_t i = 0; i < length; ++i) row[i] = static_cast<float>(row[i] * factor);
  }
}

bool normalize(float* row, std::int64_t length) {
  const double square = dot<double>(row, row, length);
  if (!(square > 0.0) || !std::isfinite(square)) return false;
  const double factor = 1.0 / std::sqrt(square);
  for (std::int64_t i = 0; i < length; ++i) row[i] = static_cast<float>(row[i] * factor);
  return true;
}

}  // namespace tutti::low_rank
