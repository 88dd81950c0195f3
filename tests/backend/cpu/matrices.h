// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <cstdint>
#include <random>
#include <vector>

namespace tutti {

struct Size {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// A matrix of small whole numbers, whose sums are exact, in memory that ends with it and has gaps between its rows.
template <class T> class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t gap, T outside)
      : rows_(rows), columns_(columns), transposed_(transposed), leading_((transposed ? rows : columns) + gap) {
    static std::mt19937 engine(3);
    const std::int64_t lines = transposed ? columns : rows;
    data_.assign(static_cast<std::size_t>(lines == 0 ? 0 : (lines - 1) * leading_ + leading_ - gap), outside);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) at(i, j) = static_cast<T>(static_cast<int>(engine() % 7U) - 3);
  }
  T& at(std::int64_t i, std::int64_t j) {
    return data_[static_cast<std::size_t>(transposed_ ? j * leading_ + i : i * leading_ + j)];
  }
  MatrixView<T> view() const { return {data_.data(), leading_, transposed_}; }
  std::vector<T>& data() { return data_; }
  std::int64_t leading() const { return leading_; }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  bool transposed_;
  std::int64_t leading_;
  std::vector<T> data_;
};

/// What c holds after c = a b, or c += a b where `accumulate`.
template <class S> std::vector<ComputedIn<S>> plain_product(const Size& size, Matrix<S>& a, Matrix<S>& b,
                                                            Matrix<ComputedIn<S>>& c, bool accumulate) {
  using T = ComputedIn<S>;
  std::vector<T> expected = c.data();
  for (std::int64_t i = 0; i < size.m; ++i)
    for (std::int64_t j = 0; j < size.n; ++j) {
      T sum = accumulate ? c.at(i, j) : T(0);
      for (std::int64_t step = 0; step < size.k; ++step)
        sum += static_cast<T>(a.at(i, step)) * static_cast<T>(b.at(step, j));
      expected[static_cast<std::size_t>(i * c.leading() + j)] = sum;
    }
  return expected;
}

/// Sizes around those of tiles, panels, strips and blocks, of vectors of 2 to 16 lanes.
inline std::vector<Size> sizes() {
  std::vector<Size> found;
  for (const std::int64_t m : {0, 1, 2, 3, 4, 5, 13, 97})
    for (const std::int64_t n : {0, 1, 7, 24, 33, 65})
      for (const std::int64_t k : {0, 1, 5, 33}) found.push_back({m, n, k});
  for (const Size& large :
       {Size{5, 1540, 3}, Size{1, 1100, 257}, Size{4, 530, 300}, Size{7, 9, 513}, Size{200, 1, 600}, Size{98, 70, 258}})
    found.push_back(large);
  return found;
}

/// Writes a part of a right operand whose elements `at(step, column)` tells, as PartWriter says.
template <class Packed, class At> void write_part(const StripPart& part, const At& at, Packed* to) {
  constexpr std::int64_t kSteps = std::is_same_v<Packed, std::int32_t> ? 2 : 1;
  for (std::int64_t i = 0; i < part.steps; i += kSteps)
    for (std::int64_t j = 0; j < part.columns; ++j) {
      Packed& packed = to[i / kSteps * part.width + j];
      const auto first = at(part.step + i, part.column + j);
      if constexpr (kSteps == 1) {
        packed = static_cast<Packed>(first);
      } else {
        const std::uint32_t upper = i + 1 < part.steps ? at(part.step + i + 1, part.column + j).bits : 0U;
        packed = static_cast<std::int32_t>(first.bits | upper << 16U);
      }
    }
}

}  // namespace tutti
