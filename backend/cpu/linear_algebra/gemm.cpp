// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <tutti/backend/cpu/linear_algebra/bf16_tiles.h>
#include <tutti/backend/cpu/linear_algebra/few_rows.h>
#include <tutti/backend/cpu/linear_algebra/gemm_blocks.h>
#include <tutti/backend/cpu/linear_algebra/pair_dots.h>

#include <algorithm>
#include <memory>

namespace tutti {
namespace {

using gemm_blocks::kMostDepth;
using gemm_blocks::LeftRows;
using gemm_blocks::LentBlock;
using gemm_blocks::PackedBlock;
using gemm_blocks::Parts;
using gemm_blocks::Strip;
template <class T> using StripCuts = gemm_blocks::StripCuts<product_tile::MultiplyAdds<T>>;

/// Calls `f(std::type_identity<Arithmetic>{})` with what this processor computes products of S in.
template <class S, class F> void visit_arithmetic(const F& f) {
  if constexpr (std::is_same_v<S, BFloat16>) {
#if defined(TUTTI_AVX512) && defined(__x86_64__)
    if (TileDots::is_there()) return f(std::type_identity<TileDots>{});
#endif
    if (ProcessorDot::is_there()) return f(std::type_identity<PairDots<ProcessorDot>>{});
  }
  f(std::type_identity<product_tile::MultiplyAdds<ComputedIn<S>>>{});
}

/// A product of at least one step for at most kFewRows rows.
template <class S, std::size_t rows> void multiply_few(std::int64_t n, std::int64_t k, const MatrixView<S>& a,
                                                       const MatrixView<S>& b, ComputedIn<S>* c, std::int64_t c_leading,
                                                       bool accumulate) {
  const Parts depths = Parts::of(kMostDepth, k);
  for (std::int64_t part = 0; part < depths.count; ++part) {
    const std::int64_t begin = depths.begin(part);
    const auto compute =
        b.transposed ? few_rows::Dots<S, rows, kMostDepth>::compute : few_rows::AddedRows<S, rows>::compute;
    compute(n, depths.length(part), a.columns_from(begin), b.rows_from(begin), c, c_leading, accumulate || part > 0);
  }
}

/// Computes products of nothing.
template <class T>
bool is_trivial(std::int64_t m, std::int64_t n, std::int64_t k, T* c, std::int64_t c_leading, bool accumulate) {
  if (k == 0)
    for (std::int64_t i = 0; i < m && !accumulate; ++i) std::fill_n(c + i * c_leading, n, T(0));
  return m == 0 || n == 0 || k == 0;
}

}  // namespace

template <class S> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<S> a, MatrixView<S> b,
                             ComputedIn<S>* c, std::int64_t c_leading, bool accumulate) {
  static_assert(kFewRows == 4);
  if (is_trivial(m, n, k, c, c_leading, accumulate)) return;
  if (n == 1 && c_leading == 1) return multiply_few<S, 1>(m, k, b.turned(), a.turned(), c, m, accumulate);
  switch (m) {
    case 1: return multiply_few<S, 1>(n, k, a, b, c, c_leading, accumulate);
    case 2: return multiply_few<S, 2>(n, k, a, b, c, c_leading, accumulate);
    case 3: return multiply_few<S, 3>(n, k, a, b, c, c_leading, accumulate);
    case 4: return multiply_few<S, 4>(n, k, a, b, c, c_leading, accumulate);
    default:
      visit_arithmetic<S>([&]<class Arithmetic>(std::type_identity<Arithmetic>) {
        gemm_blocks::multiply_matrix<Arithmetic>(m, n, k, a, b, c, c_leading, accumulate);
      });
  }
}

template <class S> void gemm_by_parts(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<S> a,
                                      const PartWriter<S>& write, ComputedIn<S>* c, std::int64_t c_leading,
                                      bool accumulate) {
  if (is_trivial(m, n, k, c, c_leading, accumulate)) return;
  if (m <= kFewRows)  // as gemm
    return gemm_blocks::multiply_parts<product_tile::MultiplyAdds<ComputedIn<S>>>(m, n, k, a, write.elements, c,
                                                                                  c_leading, accumulate);
  visit_arithmetic<S>([&]<class Arithmetic>(std::type_identity<Arithmetic>) {
    if constexpr (Arithmetic::kSteps == 2)
      gemm_blocks::multiply_parts<Arithmetic>(m, n, k, a, write.pairs, c, c_leading, accumulate);
    else
      gemm_blocks::multiply_parts<Arithmetic>(m, n, k, a, write.elements, c, c_leading, accumulate);
  });
}

#define TUTTI_PRODUCTS(S)                                                                                    \
  template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<S>, MatrixView<S>, ComputedIn<S>*, \
                     std::int64_t, bool);                                                                    \
  template void gemm_by_parts(std::int64_t, std::int64_t, std::int64_t, MatrixView<S>, const PartWriter<S>&, \
                              ComputedIn<S>*, std::int64_t, bool);
TUTTI_PRODUCTS(float)
TUTTI_PRODUCTS(double)
TUTTI_PRODUCTS(BFloat16)
TUTTI_PRODUCTS(Float16)
#undef TUTTI_PRODUCTS

template <class T> struct PackedMatrix<T>::Packed {
  StripCuts<T> cuts;
  std::unique_ptr<PackedBlock> block;

  T* strips(std::int64_t of_block, std::int64_t part) const {
    return static_cast<T*>(block->data) + cuts.place(of_block, part);
  }
};

template <class T> PackedMatrix<T>::PackedMatrix() = default;
template <class T> PackedMatrix<T>::~PackedMatrix() = default;
template <class T> PackedMatrix<T>::PackedMatrix(PackedMatrix&&) noexcept = default;
template <class T> PackedMatrix<T>& PackedMatrix<T>::operator=(PackedMatrix&&) noexcept = default;

template <class T> void PackedMatrix<T>::pack(std::int64_t k, std::int64_t n, MatrixView<T> b) {
  if (packed_ == nullptr) packed_ = std::make_unique<Packed>();
  const StripCuts<T> cuts(k, n);
  const std::size_t bytes = static_cast<std::size_t>(cuts.all_elements()) * sizeof(T);
  if (packed_->block == nullptr || packed_->block->bytes < bytes) {
    packed_->block.reset();
    packed_->block = std::make_unique<PackedBlock>(bytes);
  }
  packed_->cuts = cuts;
  for (std::int64_t block = 0; block < cuts.blocks(); ++block)
    for (std::int64_t part = 0; part < cuts.parts(); ++part)
      gemm_blocks::pack_strips(cuts, b, block, part, packed_->strips(block, part));
}

template <class T> std::size_t PackedMatrix<T>::bytes() const {
  return packed_ == nullptr || packed_->block == nullptr ? 0 : packed_->block->bytes;
}

template <class T> std::int64_t PackedMatrix<T>::columns_through(std::int64_t columns) const {
  std::int64_t end = 0;
  const StripCuts<T>& cuts = packed_->cuts;
  for (std::int64_t block = 0; block < cuts.blocks() && end < columns; ++block)
    cuts.for_each_strip(block, [&](const Strip& strip) {
      if (end < columns) end = strip.column + strip.columns;
    });
  return end;
}

template <class T> void PackedMatrix<T>::multiply(std::int64_t m, std::int64_t columns, std::int64_t steps,
                                                  MatrixView<T> a, T* c, std::int64_t c_leading,
                                                  bool accumulate) const {
  const StripCuts<T>& cuts = packed_->cuts;
  const LeftRows<T, product_tile::MultiplyAdds<T>> rows(m, cuts, a, c, c_leading);
  const LentBlock memory(static_cast<std::size_t>(rows.panel_elements()) * sizeof(T));
  for (std::int64_t block = 0; block < cuts.blocks(); ++block)
    for (std::int64_t part = 0; part < cuts.parts() && cuts.first_step(part) < steps; ++part)
      rows.multiply(block, part, std::min(cuts.steps(part), steps - cuts.first_step(part)), columns,
                    packed_->strips(block, part), memory.data<T>(), accumulate || part > 0);
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;

}  // namespace tutti
