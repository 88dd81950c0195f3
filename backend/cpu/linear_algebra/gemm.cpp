// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <tutti/backend/cpu/linear_algebra/bf16_tiles.h>
#include <tutti/backend/cpu/linear_algebra/few_rows.h>
#include <tutti/backend/cpu/linear_algebra/gemm_blocks.h>
#include <tutti/backend/cpu/linear_algebra/narrow_product.h>
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
      if constexpr (std::is_same_v<S, ComputedIn<S>>) {
        if (narrow_product::suits(m, n, b)) return narrow_product::multiply(m, n, k, a, b, c, c_leading, accumulate);
        if (narrow_product::suits_turned(m, n, k, b))
          return narrow_product::multiply_turned(m, n, k, a, b, c, c_leading, accumulate);
      }
      visit_arithmetic<S>([&]<class Arithmetic>(std::type_identity<Arithmetic>) {
        gemm_blocks::multiply_matrix<Arithmetic>(m, n, k, a, b, c, c_leading, accumulate);
      });
  }
}

template <class S> void gemm_by_parts(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<S> a,
                                      const PartWriter<S>& write, ComputedIn<S>* c, std::int64_t c_leading,
                                      bool accumulate) {
  if (is_trivial(m, n, k, c, c_leading, accumulate)) return;
  if constexpr (std::is_same_v<S, BFloat16>)
    if (m > kFewRows)  // as gemm
      return visit_arithmetic<S>([&]<class Arithmetic>(std::type_identity<Arithmetic>) {
        if constexpr (Arithmetic::kSteps == 2)
          gemm_blocks::multiply_parts<Arithmetic>(m, n, k, a, write.pairs, c, c_leading, accumulate);
        else
          gemm_blocks::multiply_parts<Arithmetic>(m, n, k, a, write.elements, c, c_leading, accumulate);
      });
  gemm_blocks::multiply_parts<product_tile::MultiplyAdds<ComputedIn<S>>>(m, n, k, a, write.elements, c, c_leading,
                                                                         accumulate);
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

/// A packed matrix of any arithmetic.
template <class S> struct PackedMatrix<S>::Packed {
  virtual ~Packed() = default;
  virtual void pack(std::int64_t k, std::int64_t n, const MatrixView<S>& b) = 0;
  virtual std::int64_t columns_through(std::int64_t columns) const = 0;
  virtual void multiply(std::int64_t m, std::int64_t columns, std::int64_t steps, const MatrixView<S>& a,
                        ComputedIn<S>* c, std::int64_t c_leading, bool accumulate) const = 0;

  std::unique_ptr<PackedBlock> block;
};

template <class S> template <class Arithmetic> struct PackedMatrix<S>::PackedFor final : Packed {
  using Element = typename Arithmetic::Packed;
  gemm_blocks::StripCuts<Arithmetic> cuts;

  Element* strips(std::int64_t of_block, std::int64_t part) const {
    return static_cast<Element*>(this->block->data) + cuts.place(of_block, part);
  }
  void pack(std::int64_t k, std::int64_t n, const MatrixView<S>& b) override {
    cuts = gemm_blocks::StripCuts<Arithmetic>(k, n);
    const std::size_t bytes = static_cast<std::size_t>(cuts.all_elements()) * sizeof(Element);
    if (this->block == nullptr || this->block->bytes < bytes) {
      this->block.reset();
      this->block = std::make_unique<PackedBlock>(bytes);
    }
    for (std::int64_t i = 0; i < cuts.blocks(); ++i)
      for (std::int64_t part = 0; part < cuts.parts(); ++part)
        gemm_blocks::pack_strips(cuts, b, i, part, strips(i, part));
  }
  std::int64_t columns_through(std::int64_t columns) const override {
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < cuts.blocks() && end < columns; ++i)
      cuts.for_each_strip(i, [&](const Strip& strip) {
        if (end < columns) end = strip.column + strip.columns;
      });
    return end;
  }
  void multiply(std::int64_t m, std::int64_t columns, std::int64_t steps, const MatrixView<S>& a, ComputedIn<S>* c,
                std::int64_t c_leading, bool accumulate) const override {
    const LeftRows<S, Arithmetic> rows(m, cuts, a, c, c_leading);
    const LentBlock memory(static_cast<std::size_t>(rows.panel_elements()) * sizeof(Element));
    [[maybe_unused]] const typename gemm_blocks::Panel<S, Arithmetic>::Use use{};
    for (std::int64_t i = 0; i < cuts.blocks(); ++i)
      for (std::int64_t part = 0; part < cuts.parts() && cuts.first_step(part) < steps; ++part)
        rows.multiply(i, part, std::min(cuts.steps(part), steps - cuts.first_step(part)), columns, strips(i, part),
                      memory.data<Element>(), accumulate || part > 0);
  }
};

template <class S> PackedMatrix<S>::PackedMatrix() = default;
template <class S> PackedMatrix<S>::~PackedMatrix() = default;
template <class S> PackedMatrix<S>::PackedMatrix(PackedMatrix&&) noexcept = default;
template <class S> PackedMatrix<S>& PackedMatrix<S>::operator=(PackedMatrix&&) noexcept = default;

template <class S> void PackedMatrix<S>::pack(std::int64_t k, std::int64_t n, MatrixView<S> b) {
  if (packed_ == nullptr)
    visit_arithmetic<S>([this]<class Arithmetic>(std::type_identity<Arithmetic>) {
      packed_ = std::make_unique<PackedFor<Arithmetic>>();
    });
  packed_->pack(k, n, b);
}

template <class S> std::size_t PackedMatrix<S>::bytes() const {
  return packed_ == nullptr || packed_->block == nullptr ? 0 : packed_->block->bytes;
}

template <class S> std::int64_t PackedMatrix<S>::columns_through(std::int64_t columns) const {
  return packed_->columns_through(columns);
}

template <class S> void PackedMatrix<S>::multiply(std::int64_t m, std::int64_t columns, std::int64_t steps,
                                                  MatrixView<S> a, ComputedIn<S>* c, std::int64_t c_leading,
                                                  bool accumulate) const {
  packed_->multiply(m, columns, steps, a, c, c_leading, accumulate);
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template class PackedMatrix<BFloat16>;

}  // namespace tutti
