// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/runtime/function_ref.h>
#include <tutti/backend/dtype.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tutti {

/// A matrix in memory: element (i, j) at data[i * leading + j], or at data[j * leading + i] when transposed.
template <class T> struct MatrixView {
  const T* data;
  std::int64_t leading;
  bool transposed = false;

  MatrixView turned() const { return {data, leading, !transposed}; }
  /// The matrix from row i, or from column j, on.
  MatrixView rows_from(std::int64_t i) const { return {data + (transposed ? i : i * leading), leading, transposed}; }
  MatrixView columns_from(std::int64_t j) const { return {data + (transposed ? j * leading : j), leading, transposed}; }
};

/// Rows of a up to which `gemm` reads b where it is.
inline constexpr std::int64_t kFewRows = 4;

/// c = a b, or c += a b where `accumulate`, for a [m, k], b [k, n] and row-major c [m, n] with rows `c_leading` apart.
/// Elements of 16 bits are read as they lie, and summed in f32. Runs on the calling thread alone, which keeps up to
/// 3.4 MB to work in. Throws std::bad_alloc.
///
/// Bits of an element depend on its row of a, its column of b, k and `accumulate` alone, with two exceptions, where
/// lanes hold parts of its sum: a transposed b and at most kFewRows rows, and a c of one column without gaps and an a
/// that is not transposed. Sums of more rows of bf16 take several steps at once where the processor has
/// instructions for that (bf16_tiles.h, pair_dots.h), which take subnormal numbers for zeros; all others are sums of
/// the widened elements.
template <class S> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<S> a, MatrixView<S> b,
                             ComputedIn<S>* c, std::int64_t c_leading, bool accumulate = false);

/// A part of the right operand of a product, [k, n], as the product reads it.
struct StripPart {
  static constexpr std::int64_t kMostSteps = 256;

  std::int64_t step;  ///< the first; even
  std::int64_t steps;
  std::int64_t column;   ///< the first
  std::int64_t columns;  ///< number of them, at most packing::kMostStripColumns
  std::int64_t width;    ///< the columns, rounded up to whole vectors
};

/// Functions that write parts of a right operand, for gemm_by_parts; what the rest of each row holds changes nothing,
/// and up to a vector behind the last row may be written, too.
template <class S> struct PartWriter {
  /// `write(part, to)`, called with the element types that the product wants.
  template <class F>
    requires(!std::is_same_v<F, PartWriter>)
  PartWriter(const F& write) : elements(write) {}

  /// Element (part.step + i, part.column + j), a value of S, at to[i * part.width + j].
  FunctionRef<void(const StripPart& part, ComputedIn<S>* to)> elements;
};
template <> struct PartWriter<BFloat16> {
  template <class F>
    requires(!std::is_same_v<F, PartWriter>)
  PartWriter(const F& write) : elements(write), pairs(write) {}

  FunctionRef<void(const StripPart& part, float* to)> elements;
  /// Elements (part.step + 2 i, part.column + j) and (part.step + 2 i + 1, part.column + j) in the lower and the upper
  /// half of to[i * part.width + j], zeros for a step that there is not.
  FunctionRef<void(const StripPart& part, std::int32_t* to)> pairs;
};

/// `gemm` for a b that lies nowhere as a matrix: `write` is called for one part after the other.
template <class S> void gemm_by_parts(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<S> a,
                                      const PartWriter<S>& write, ComputedIn<S>* c, std::int64_t c_leading,
                                      bool accumulate = false);

/// The matrix b of several products, copied once into the order in which they read it. Each element of a product has
/// the bits that `gemm` gives it, of more than kFewRows rows, where the elements beside it do not count; and where
/// steps are left out, those of an a whose further steps are zeros (of bf16: of an even number of steps, or a finite
/// b). One thread packs; then several may multiply.
template <class S> class PackedMatrix {
 public:
  PackedMatrix();
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;

  /// Copies b, [k, n], k and n > 0, in place of what was there. Throws std::bad_alloc.
  void pack(std::int64_t k, std::int64_t n, MatrixView<S> b);

  std::size_t bytes() const;  ///< memory that it holds

  /// The least number of columns that is at least `columns` and that `multiply` can stop after.
  std::int64_t columns_through(std::int64_t columns) const;

  /// c = a b or c += a b, as `gemm`, of the first `steps` rows and `columns` columns of b: a is [m, steps], c
  /// [m, columns], and `columns` a result of columns_through.
  void multiply(std::int64_t m, std::int64_t columns, std::int64_t steps, MatrixView<S> a, ComputedIn<S>* c,
                std::int64_t c_leading, bool accumulate = false) const;

 private:
  struct Packed;
  template <class Arithmetic> struct PackedFor;
  std::unique_ptr<Packed> packed_;
};

extern template class PackedMatrix<float>;
extern template class PackedMatrix<double>;
extern template class PackedMatrix<BFloat16>;

}  // namespace tutti
