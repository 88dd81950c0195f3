// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <tutti/backend/cpu/linear_algebra/few_rows.h>
#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/cpu/linear_algebra/product_tile.h>
#include <tutti/backend/cpu/operations/divide_up.h>
#include <tutti/backend/cpu/runtime/kept_by_thread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace tutti {
namespace {

using product_tile::kMostRows;
using product_tile::kMostVectors;

// What is packed at once: steps of the sums, which decide how these are rounded; rows of a, for the second cache; and
// columns of b, for the third.
constexpr std::int64_t kMostDepth = 256;
constexpr std::int64_t kMostBlockRows = 96;
constexpr std::int64_t kMostBlockColumns = 1536;
static_assert(kMostBlockRows % kMostRows == 0);

/// Up to so many columns a costs less to read where it is than to pack.
constexpr std::int64_t kFewColumns = 64;

/// [0, total) in `count` parts whose lengths differ by 1 at most.
struct Parts {
  std::int64_t total;
  std::int64_t count;

  static Parts of(std::int64_t most, std::int64_t total) { return {total, divide_up(total, most)}; }
  std::int64_t begin(std::int64_t i) const { return total * i / count; }
  std::int64_t length(std::int64_t i) const { return begin(i + 1) - begin(i); }
  std::int64_t longest() const { return divide_up(total, count); }
};

/// Memory for packed operands.
struct PackedBlock {
  static constexpr std::align_val_t kAlignment{64};
  std::size_t bytes;
  void* data;

  explicit PackedBlock(std::size_t size) : bytes(size), data(::operator new(size, kAlignment)) {}
  ~PackedBlock() { ::operator delete(data, kAlignment); }
  PackedBlock(const PackedBlock&) = delete;
  PackedBlock& operator=(const PackedBlock&) = delete;
};

/// A block that the calling thread lends for a while.
class LentBlock {
 public:
  explicit LentBlock(std::size_t bytes) : block_(KeptByThread<PackedBlock>::take()) {
    if (block_ != nullptr && block_->bytes >= bytes) return;
    block_.reset();
    block_ = std::make_unique<PackedBlock>(bytes);
  }
  ~LentBlock() { KeptByThread<PackedBlock>::keep(std::move(block_)); }
  LentBlock(const LentBlock&) = delete;
  LentBlock& operator=(const LentBlock&) = delete;

  template <class T> T* data() const noexcept { return static_cast<T*>(block_->data); }

 private:
  std::unique_ptr<PackedBlock> block_;
};

/// Vectors of columns of b that are packed together: for each step, `vectors` vectors without gaps.
template <class T> struct Strip {
  std::int64_t column;   // the first
  std::int64_t columns;  // of the matrix: the last vector may have fewer than lanes
  std::int64_t vectors;
  std::int64_t place;  // of its vectors among those of its block
};

/// How b, [k, n], is cut: its steps in parts, its columns in blocks of vectors, and these in strips.
template <class T> class StripCuts {
 public:
  static constexpr std::int64_t kLanes = kNativeLanes<T>;

  StripCuts() = default;
  StripCuts(std::int64_t k, std::int64_t n)
      : columns_(n),
        depths_(Parts::of(kMostDepth, k)),
        blocks_{divide_up(n, kLanes), divide_up(n, kMostBlockColumns)} {}

  std::int64_t columns() const { return columns_; }
  const Parts& depths() const { return depths_; }
  std::int64_t blocks() const { return blocks_.count; }

  /// Elements of the longest part of the widest block, and where a part of a block lies when all are kept.
  std::int64_t most_elements() const { return blocks_.longest() * kLanes * depths_.longest(); }
  std::int64_t place(std::int64_t block, std::int64_t part) const {
    return (depths_.begin(part) * blocks_.total + blocks_.begin(block) * depths_.length(part)) * kLanes;
  }
  std::int64_t all_elements() const { return depths_.total * blocks_.total * kLanes; }

  /// Calls `f` for the strips of a block, which are as wide as can be, and none much narrower than the others.
  template <class F> void for_each_strip(std::int64_t block, const F& f) const {
    std::int64_t vectors = 0;
    const std::int64_t all = blocks_.length(block);
    for (std::int64_t done = 0; done < all; done += vectors) {
      const std::int64_t left = all - done;
      vectors = left == kMostVectors + 1 ? left / 2 : std::min(left, kMostVectors);
      const std::int64_t column = (blocks_.begin(block) + done) * kLanes;
      f(Strip<T>{column, std::min(vectors * kLanes, columns_ - column), vectors, done});
    }
  }

 private:
  std::int64_t columns_ = 0;
  Parts depths_{};
  Parts blocks_{};  // in vectors
};

/// Packs a part of a block of b. Rows are read a few at a time, each from strip to strip, for a column of them often
/// lies in as many pages.
template <class T>
void pack_strips(const StripCuts<T>& cuts, const MatrixView<T>& b, std::int64_t block, std::int64_t part, T* to) {
  constexpr std::int64_t kFewSteps = 4;
  const std::int64_t begin = cuts.depths().begin(part);
  const std::int64_t depth = cuts.depths().length(part);
  const std::int64_t steps = b.transposed ? depth : kFewSteps;
  for (std::int64_t done = 0; done < depth; done += steps)
    cuts.for_each_strip(block, [&](const Strip<T>& strip) {
      packing::kPack<T, StripCuts<T>::kLanes, kMostVectors>[static_cast<std::size_t>(strip.vectors - 1)](
          b.rows_from(begin + done).columns_from(strip.column).data, b.leading, b.transposed,
          std::min(steps, depth - done), strip.columns,
          to + (strip.place * depth + done * strip.vectors) * StripCuts<T>::kLanes);
    });
}

/// Rows of a times packed strips of b. a is packed in panels of a few rows, or read where it is.
template <class T> class LeftRows {
 public:
  LeftRows(std::int64_t m, const StripCuts<T>& cuts, MatrixView<T> a, T* c, std::int64_t c_leading)
      : rows_(m), cuts_(cuts), packs_(cuts.columns() > kFewColumns), a_(a), c_(c), c_leading_(c_leading) {}

  /// Elements for panels, which `multiply` works in.
  std::int64_t panel_elements() const {
    return packs_ ? std::min(rows_, kMostBlockRows) * cuts_.depths().longest() : 0;
  }

  /// Adds the first `steps` of a part, or sets, in the strips of a block that begin before column `columns`.
  void multiply(std::int64_t block, std::int64_t part, std::int64_t steps, std::int64_t columns, const T* strips,
                T* panels, bool accumulate) const {
    const std::int64_t begin = cuts_.depths().begin(part);
    const std::int64_t depth = cuts_.depths().length(part);
    for (std::int64_t row = 0; row < rows_; row += kMostBlockRows) {
      const std::int64_t rows = std::min(kMostBlockRows, rows_ - row);
      if (packs_) pack_panels(row, rows, begin, steps, panels);
      cuts_.for_each_strip(block, [&](const Strip<T>& strip) {
        if (strip.column >= columns) return;
        const T* const packed = strips + strip.place * depth * StripCuts<T>::kLanes;
        multiply(strip, packed, row, rows, begin, steps, panels, accumulate);
      });
    }
  }

 private:
  void pack_panels(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t steps, T* panels) const {
    for (std::int64_t place = 0; place < rows; place += kMostRows) {
      const std::int64_t count = std::min(kMostRows, rows - place);
      packing::kPack<T, 1, kMostRows>[static_cast<std::size_t>(count - 1)](
          a_.rows_from(row + place).columns_from(begin).data, a_.leading, !a_.transposed, steps, count,
          panels + place * steps);
    }
  }

  void multiply(const Strip<T>& strip, const T* packed, std::int64_t row, std::int64_t rows, std::int64_t begin,
                std::int64_t steps, const T* panels, bool accumulate) const {
    using product_tile::Multipliers;
    const std::int64_t across = a_.transposed ? 1 : a_.leading;
    const std::int64_t step = a_.transposed ? a_.leading : 1;
    for (std::int64_t place = 0; place < rows; place += kMostRows) {
      const std::int64_t count = std::min(kMostRows, rows - place);
      T* const c = c_ + (row + place) * c_leading_ + strip.column;
      if (packs_)
        Multipliers<T>::of_packed(count, strip.vectors)(steps, {panels + place * steps, 1, count}, packed, c,
                                                        c_leading_, strip.columns, accumulate);
      else
        Multipliers<T>::of(count, strip.vectors)(steps,
                                                 {a_.rows_from(row + place).columns_from(begin).data, across, step},
                                                 packed, c, c_leading_, strip.columns, accumulate);
    }
  }

  const std::int64_t rows_;
  const StripCuts<T>& cuts_;
  const bool packs_;
  const MatrixView<T> a_;
  T* const c_;
  const std::int64_t c_leading_;
};

/// A product of at least one step. `pack(cuts, block, part, to)` packs of b what is used at once.
template <class T, class Pack> void multiply_many(std::int64_t m, std::int64_t n, std::int64_t k,
                                                  const MatrixView<T>& a, const Pack& pack, T* c,
                                                  std::int64_t c_leading, bool accumulate) {
  const StripCuts<T> cuts(k, n);
  const LeftRows<T> rows(m, cuts, a, c, c_leading);
  const std::int64_t strip_elements = cuts.most_elements() + StripCuts<T>::kLanes;
  const LentBlock memory(static_cast<std::size_t>(strip_elements + rows.panel_elements()) * sizeof(T));
  T* const strips = memory.data<T>();
  for (std::int64_t block = 0; block < cuts.blocks(); ++block)
    for (std::int64_t part = 0; part < cuts.depths().count; ++part) {
      pack(cuts, block, part, strips);
      rows.multiply(block, part, cuts.depths().length(part), n, strips, strips + strip_elements,
                    accumulate || part > 0);
    }
}

/// A product of at least one step for at most kFewRows rows.
template <class T, std::size_t rows> void multiply_few(std::int64_t n, std::int64_t k, const MatrixView<T>& a,
                                                       const MatrixView<T>& b, T* c, std::int64_t c_leading,
                                                       bool accumulate) {
  const Parts depths = Parts::of(kMostDepth, k);
  for (std::int64_t part = 0; part < depths.count; ++part) {
    const std::int64_t begin = depths.begin(part);
    const auto compute =
        b.transposed ? few_rows::Dots<T, rows, kMostDepth>::compute : few_rows::AddedRows<T, rows>::compute;
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

template <class T> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                             std::int64_t c_leading, bool accumulate) {
  static_assert(kFewRows == 4);
  if (is_trivial(m, n, k, c, c_leading, accumulate)) return;
  if (n == 1 && c_leading == 1) return multiply_few<T, 1>(m, k, b.turned(), a.turned(), c, m, accumulate);
  switch (m) {
    case 1: return multiply_few<T, 1>(n, k, a, b, c, c_leading, accumulate);
    case 2: return multiply_few<T, 2>(n, k, a, b, c, c_leading, accumulate);
    case 3: return multiply_few<T, 3>(n, k, a, b, c, c_leading, accumulate);
    case 4: return multiply_few<T, 4>(n, k, a, b, c, c_leading, accumulate);
    default:
      return multiply_many(
          m, n, k, a,
          [&b](const StripCuts<T>& cuts, std::int64_t block, std::int64_t part, T* to) {
            pack_strips(cuts, b, block, part, to);
          },
          c, c_leading, accumulate);
  }
}

template <class T> void gemm_by_parts(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a,
                                      FunctionRef<void(const StripPart&, T*)> pack, T* c, std::int64_t c_leading,
                                      bool accumulate) {
  if (is_trivial(m, n, k, c, c_leading, accumulate)) return;
  const auto pack_all = [&](const StripCuts<T>& cuts, std::int64_t block, std::int64_t part, T* to) {
    const std::int64_t depth = cuts.depths().length(part);
    cuts.for_each_strip(block, [&](const Strip<T>& strip) {
      pack({cuts.depths().begin(part), depth, strip.column, strip.columns, strip.vectors * StripCuts<T>::kLanes},
           to + strip.place * depth * StripCuts<T>::kLanes);
    });
  };
  multiply_many(m, n, k, a, pack_all, c, c_leading, accumulate);
}

template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t,
                   bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                   std::int64_t, bool);

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
    for (std::int64_t part = 0; part < cuts.depths().count; ++part)
      pack_strips(cuts, b, block, part, packed_->strips(block, part));
}

template <class T> std::size_t PackedMatrix<T>::bytes() const {
  return packed_ == nullptr || packed_->block == nullptr ? 0 : packed_->block->bytes;
}

template <class T> std::int64_t PackedMatrix<T>::columns_through(std::int64_t columns) const {
  std::int64_t end = 0;
  const StripCuts<T>& cuts = packed_->cuts;
  for (std::int64_t block = 0; block < cuts.blocks() && end < columns; ++block)
    cuts.for_each_strip(block, [&](const Strip<T>& strip) {
      if (end < columns) end = strip.column + strip.columns;
    });
  return end;
}

template <class T> void PackedMatrix<T>::multiply(std::int64_t m, std::int64_t columns, std::int64_t steps,
                                                  MatrixView<T> a, T* c, std::int64_t c_leading,
                                                  bool accumulate) const {
  const StripCuts<T>& cuts = packed_->cuts;
  const LeftRows<T> rows(m, cuts, a, c, c_leading);
  const LentBlock memory(static_cast<std::size_t>(rows.panel_elements()) * sizeof(T));
  for (std::int64_t block = 0; block < cuts.blocks(); ++block)
    for (std::int64_t part = 0; part < cuts.depths().count && cuts.depths().begin(part) < steps; ++part)
      rows.multiply(block, part, std::min(cuts.depths().length(part), steps - cuts.depths().begin(part)), columns,
                    packed_->strips(block, part), memory.data<T>(), accumulate || part > 0);
}

template void gemm_by_parts(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>,
                            FunctionRef<void(const StripPart&, float*)>, float*, std::int64_t, bool);
template void gemm_by_parts(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>,
                            FunctionRef<void(const StripPart&, double*)>, double*, std::int64_t, bool);
template class PackedMatrix<float>;
template class PackedMatrix<double>;

}  // namespace tutti
