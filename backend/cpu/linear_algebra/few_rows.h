// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of so few rows that each element of b is used once or a few times: b is read where it is, and packed
// nowhere.

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <algorithm>

namespace tutti::few_rows {

/// b by rows: each of its rows, times an element of a, is added to the sums of a row of c, of some columns at a time.
template <class S, std::size_t rows> class AddedRows {
 public:
  using T = ComputedIn<S>;

  /// c = a b, or c += a b, of `depth` steps; sums as gemm's of more rows take them.
  static void compute(std::int64_t n, std::int64_t depth, const MatrixView<S>& a, const MatrixView<S>& b, T* c,
                      std::int64_t c_leading, bool accumulate) {
    for (std::int64_t j = 0; j < n; j += kColumns) {
      const std::int64_t columns = std::min(kColumns, n - j);
      AddedRows sums(columns);
      std::int64_t step = 0;
      for (; step + kSteps <= depth; step += kSteps)
        sums.template add<kSteps>(a.columns_from(step), b.data + step * b.leading + j, b.leading, columns);
      for (; step < depth; ++step)
        sums.template add<1>(a.columns_from(step), b.data + step * b.leading + j, b.leading, columns);
      sums.store_in(c + j, c_leading, columns, accumulate);
    }
  }

 private:
  static constexpr std::int64_t kColumns = 512;
  static constexpr std::int64_t kSteps = rows > 2 ? 2 : 4;  // elements of a that stay in registers
  static constexpr std::int64_t kLanes = kNativeLanes<T>;

  explicit AddedRows(std::int64_t columns) {
    for (auto& row : sums_)
      for (std::int64_t j = 0; j < columns; j += kLanes) native_store<T>(Native<T>{}, row + j);
  }

  template <std::int64_t steps>
  void add(const MatrixView<S>& a, const S* b, std::int64_t b_leading, std::int64_t columns) {
    Native<T> factors[rows][steps];
    for (std::size_t i = 0; i < rows; ++i)
      for (std::int64_t s = 0; s < steps; ++s)
        factors[i][s] = static_cast<T>(*a.rows_from(static_cast<std::int64_t>(i)).columns_from(s).data) - Native<T>{};
    std::int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      add_vector<steps>(factors, j, [&](std::int64_t s) { return load_wide(b + s * b_leading + j); });
    if (j < columns)
      add_vector<steps>(factors, j,
                        [&](std::int64_t s) { return load_wide_first(b + s * b_leading + j, columns - j); });
  }
  template <std::int64_t steps, class Load>
  TUTTI_ALWAYS_INLINE void add_vector(const Native<T> (&factors)[rows][steps], std::int64_t j, const Load& load) {
    Native<T> row[steps];
    for (std::int64_t s = 0; s < steps; ++s) row[s] = load(s);
    for (std::size_t i = 0; i < rows; ++i) {
      Native<T> sum = native_load(sums_[i] + j);
      for (std::int64_t s = 0; s < steps; ++s) sum = native_fma(factors[i][s], row[s], sum);
      native_store<T>(sum, sums_[i] + j);
    }
  }

  void store_in(T* c, std::int64_t c_leading, std::int64_t columns, bool accumulate) const {
    for (std::size_t i = 0; i < rows; ++i, c += c_leading)
      for (std::int64_t j = 0; j < columns; ++j) c[j] = accumulate ? c[j] + sums_[i][j] : sums_[i][j];
  }

  alignas(64) T sums_[rows][kColumns];  // those of the columns in use, in whole vectors
};

/// b by columns: each element of c is a sum of products of vectors along the steps, of `most_depth` at most, and of
/// their lanes.
template <class S, std::size_t rows, std::int64_t most_depth> class Dots {
 public:
  using T = ComputedIn<S>;

  /// c = a b, or c += a b, of `depth` steps.
  static void compute(std::int64_t n, std::int64_t depth, const MatrixView<S>& a, const MatrixView<S>& b, T* c,
                      std::int64_t c_leading, bool accumulate) {
    S copy[rows][most_depth];
    MatrixView<S> by_rows = a;
    if (a.transposed) {
      for (std::size_t i = 0; i < rows; ++i)
        for (std::int64_t step = 0; step < depth; ++step)
          copy[i][step] = a.data[step * a.leading + static_cast<std::int64_t>(i)];
      by_rows = {copy[0], most_depth};
    }
    std::int64_t j = 0;
    for (; j + kColumns <= n; j += kColumns)
      multiply<kColumns>(depth, by_rows, b.columns_from(j), c + j, c_leading, accumulate);
    for (; j < n; ++j) multiply<1>(depth, by_rows, b.columns_from(j), c + j, c_leading, accumulate);
  }

 private:
  static constexpr std::int64_t kColumns = rows > 2 ? 2 : 4;  // their sums stay in registers
  static constexpr std::int64_t kLanes = kNativeLanes<T>;

  template <std::int64_t columns> static void multiply(std::int64_t depth, const MatrixView<S>& a,
                                                       const MatrixView<S>& b, T* c, std::int64_t c_leading,
                                                       bool accumulate) {
    Native<T> sums[rows][columns] = {};
    const auto add = [&](const auto& load) {
      Native<T> factors[columns];
      for (std::int64_t j = 0; j < columns; ++j) factors[j] = load(b.data + j * b.leading);
      for (std::size_t i = 0; i < rows; ++i) {
        const Native<T> factor = load(a.data + static_cast<std::int64_t>(i) * a.leading);
        for (std::int64_t j = 0; j < columns; ++j) sums[i][j] = native_fma(factor, factors[j], sums[i][j]);
      }
    };
    std::int64_t step = 0;
    for (; step + kLanes <= depth; step += kLanes) add([&](const S* from) { return load_wide(from + step); });
    if (step < depth) add([&](const S* from) { return load_wide_first(from + step, depth - step); });
    for (std::size_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        T& to = c[static_cast<std::int64_t>(i) * c_leading + j];
        to = accumulate ? to + sum_of(sums[i][j]) : sum_of(sums[i][j]);
      }
  }
  static T sum_of(const Native<T>& lanes) {
    T sum = 0;
    for (std::int64_t i = 0; i < kLanes; ++i) sum += lanes[i];
    return sum;
  }
};

}  // namespace tutti::few_rows
