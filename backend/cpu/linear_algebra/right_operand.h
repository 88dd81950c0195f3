// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// The right operand of several products: packed where they have enough rows together, else read where it is.
template <class S> class RightOperand {
 public:
  /// Most bytes of packed operands that a thread keeps for its next use of them.
  static constexpr std::size_t kMostKept = std::size_t{4} << 20U;

  void set(std::int64_t k, std::int64_t n, const MatrixView<S>& matrix, bool packs) {
    matrix_ = matrix;
    packs_ = packs;
    if (packs) packed_.pack(k, n, matrix);
  }
  std::size_t bytes() const { return packed_.bytes(); }
  std::int64_t columns_through(std::int64_t columns) const {
    return packs_ ? packed_.columns_through(columns) : columns;
  }
  void multiply(std::int64_t m, std::int64_t columns, std::int64_t steps, const MatrixView<S>& a, ComputedIn<S>* c,
                std::int64_t c_leading, bool accumulate = false) const {
    if (packs_)
      packed_.multiply(m, columns, steps, a, c, c_leading, accumulate);
    else
      gemm(m, columns, steps, a, matrix_, c, c_leading, accumulate);
  }

 private:
  MatrixView<S> matrix_{};
  PackedMatrix<S> packed_;
  bool packs_ = false;
};

}  // namespace tutti
