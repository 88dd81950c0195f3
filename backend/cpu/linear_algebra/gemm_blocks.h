// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrix products by blocks: b is packed in strips of columns, a in panels of rows, and both meet in tiles.

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/cpu/linear_algebra/product_tile.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/cpu/runtime/kept_by_thread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tutti::gemm_blocks {

using product_tile::kMostRows;
using product_tile::kMostVectors;

// Limits of what is packed at once: steps of the sums, which decide how these are rounded; rows of a, for the second
// cache; and columns of b, for the third.
inline constexpr std::int64_t kMostDepth = StripPart::kMostSteps;
inline constexpr std::int64_t kMostBlockRows = 96;
inline constexpr std::int64_t kMostBlockColumns = 1536;

/// Up to so many columns a costs less to read where it is than to pack.
inline constexpr std::int64_t kFewColumns = 64;

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

/// Vectors of columns of b that are packed together: for each packed step, `vectors` vectors without gaps.
struct Strip {
  std::int64_t column;   // the first
  std::int64_t columns;  // fewer than lanes, too: the last vector may have some beyond the matrix
  std::int64_t vectors;
  std::int64_t place;  // number of its first vector in its block
};

/// How b, [k, n], is cut: its packed steps in parts, its columns in blocks of vectors, and these in strips.
template <class Arithmetic> class StripCuts {
 public:
  static constexpr std::int64_t kLanes = kNativeLanes<typename Arithmetic::Packed>;
  static constexpr std::int64_t kSteps = Arithmetic::kSteps;
  static constexpr std::int64_t kUnit = Arithmetic::kUnit;

  StripCuts() = default;
  StripCuts(std::int64_t k, std::int64_t n)
      : steps_(k),
        packed_steps_(divide_up(k, kSteps)),
        columns_(n),
        depths_(Parts::of(kMostDepth / (kSteps * kUnit), divide_up(packed_steps_, kUnit))),
        blocks_{divide_up(n, kLanes), divide_up(n, kMostBlockColumns)} {}

  std::int64_t columns() const { return columns_; }
  std::int64_t parts() const { return depths_.count; }
  std::int64_t blocks() const { return blocks_.count; }

  /// Steps of the sums in a part, and the first.
  std::int64_t first_step(std::int64_t part) const { return first_packed_step(part) * kSteps; }
  std::int64_t steps(std::int64_t part) const {
    return std::min(packed_steps(part) * kSteps, steps_ - first_step(part));
  }
  /// The same counted in packed elements, and those of the longest part.
  std::int64_t first_packed_step(std::int64_t part) const { return depths_.begin(part) * kUnit; }
  std::int64_t packed_steps(std::int64_t part) const {
    return std::min(depths_.length(part) * kUnit, packed_steps_ - first_packed_step(part));
  }
  std::int64_t most_packed_steps() const { return std::min(depths_.longest() * kUnit, packed_steps_); }

  /// Packed elements of the longest part of the widest block, and where a part of a block lies when all are kept.
  std::int64_t most_elements() const { return blocks_.longest() * kLanes * most_packed_steps(); }
  std::int64_t place(std::int64_t block, std::int64_t part) const {
    return (first_packed_step(part) * blocks_.total + blocks_.begin(block) * packed_steps(part)) * kLanes;
  }
  std::int64_t all_elements() const { return packed_steps_ * blocks_.total * kLanes; }

  /// Calls `f` for the strips of a block, which are as wide as can be, and none much narrower than the others.
  template <class F> void for_each_strip(std::int64_t block, const F& f) const {
    std::int64_t vectors = 0;
    const std::int64_t all = blocks_.length(block);
    for (std::int64_t done = 0; done < all; done += vectors) {
      const std::int64_t left = all - done;
      vectors = left == kMostVectors + 1 ? left / 2 : std::min(left, kMostVectors);
      const std::int64_t column = (blocks_.begin(block) + done) * kLanes;
      f(Strip{column, std::min(vectors * kLanes, columns_ - column), vectors, done});
    }
  }

 private:
  std::int64_t steps_ = 0;
  std::int64_t packed_steps_ = 0;
  std::int64_t columns_ = 0;
  Parts depths_{};  // counted in units of packed steps
  Parts blocks_{};  // counted in vectors
};

/// The function that packs strips of so many vectors.
template <class S, class Arithmetic> packing::Pack<S, Arithmetic> strip_packer(std::int64_t vectors) {
  return packing::kPack<S, Arithmetic, StripCuts<Arithmetic>::kLanes,
                        static_cast<std::size_t>(kMostVectors)>[static_cast<std::size_t>(vectors - 1)];
}

/// Packs a part of a block of b. Rows are read a few at a time, each from strip to strip, for a column of them often
/// lies in as many pages.
template <class Arithmetic, class S> void pack_strips(const StripCuts<Arithmetic>& cuts, const MatrixView<S>& b,
                                                      std::int64_t block, std::int64_t part,
                                                      typename Arithmetic::Packed* to) {
  constexpr std::int64_t kFewSteps = 4;
  static_assert(kFewSteps % Arithmetic::kSteps == 0);
  const std::int64_t begin = cuts.first_step(part);
  const std::int64_t depth = cuts.steps(part);
  const std::int64_t steps = b.transposed ? depth : kFewSteps;
  for (std::int64_t done = 0; done < depth; done += steps)
    cuts.for_each_strip(block, [&](const Strip& strip) {
      const std::int64_t place = strip.place * cuts.packed_steps(part) + done / Arithmetic::kSteps * strip.vectors;
      strip_packer<S, Arithmetic>(strip.vectors)(b.rows_from(begin + done).columns_from(strip.column).data, b.leading,
                                                 b.transposed, std::min(steps, depth - done), strip.columns,
                                                 to + place * StripCuts<Arithmetic>::kLanes);
    });
}

/// A few rows of a, packed, and their product with a strip of b. What multiplies them is in use while `Use` lives.
template <class S, class Arithmetic> struct Panel {
  using Packed = typename Arithmetic::Packed;
  static constexpr std::int64_t kRows = kMostRows;
  struct Use {};

  static void pack(const MatrixView<S>& a, std::int64_t steps, std::int64_t count, Packed* to) {
    packing::kPack<S, Arithmetic, 1, static_cast<std::size_t>(kRows)>[static_cast<std::size_t>(count - 1)](
        a.data, a.leading, !a.transposed, steps, count, to);
  }
  static void multiply(std::int64_t depth, const Packed* panel, std::int64_t count, const Strip& strip,
                       const Packed* packed, typename Arithmetic::Sum* c, std::int64_t c_leading, bool accumulate) {
    product_tile::Multipliers<Arithmetic>::of_packed(count, strip.vectors)(depth, {panel, 1, count}, packed, c,
                                                                           c_leading, strip.columns, accumulate);
  }
};

/// Rows of a times packed strips of b. a is packed in panels of a few rows, or read where it is.
template <class S, class Arithmetic> class LeftRows {
 public:
  using T = typename Arithmetic::Sum;
  using Packed = typename Arithmetic::Packed;

  LeftRows(std::int64_t m, const StripCuts<Arithmetic>& cuts, MatrixView<S> a, T* c, std::int64_t c_leading)
      : rows_(m),
        cuts_(cuts),
        packs_(!kReadsInPlace || cuts.columns() > kFewColumns),
        a_(a),
        c_(c),
        c_leading_(c_leading) {}

  /// Elements for panels, which `multiply` works in.
  std::int64_t panel_elements() const {
    return packs_ ? std::min(rows_, kMostBlockRows) * cuts_.most_packed_steps() : 0;
  }

  /// Adds the first `steps` of a part, or sets, in the strips of a block that begin before column `columns`.
  void multiply(std::int64_t block, std::int64_t part, std::int64_t steps, std::int64_t columns, const Packed* strips,
                Packed* panels, bool accumulate) const {
    const std::int64_t begin = cuts_.first_step(part);
    const std::int64_t depth = cuts_.packed_steps(part);
    for (std::int64_t row = 0; row < rows_; row += kMostBlockRows) {
      const std::int64_t rows = std::min(kMostBlockRows, rows_ - row);
      if (packs_) pack_panels(row, rows, begin, steps, panels);
      cuts_.for_each_strip(block, [&](const Strip& strip) {
        if (strip.column >= columns) return;
        const Packed* const packed = strips + strip.place * depth * StripCuts<Arithmetic>::kLanes;
        multiply(strip, packed, row, rows, begin, steps, panels, accumulate);
      });
    }
  }

 private:
  static constexpr bool kReadsInPlace = std::is_same_v<S, Packed>;
  static constexpr std::int64_t kPanelRows = Panel<S, Arithmetic>::kRows;
  static_assert(kMostBlockRows % kPanelRows == 0);

  void pack_panels(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t steps, Packed* panels) const {
    const std::int64_t depth = divide_up(steps, Arithmetic::kSteps);
    for (std::int64_t place = 0; place < rows; place += kPanelRows)
      Panel<S, Arithmetic>::pack(a_.rows_from(row + place).columns_from(begin), steps,
                                 std::min(kPanelRows, rows - place), panels + place * depth);
  }

  void multiply(const Strip& strip, const Packed* packed, std::int64_t row, std::int64_t rows, std::int64_t begin,
                std::int64_t steps, const Packed* panels, bool accumulate) const {
    const std::int64_t depth = divide_up(steps, Arithmetic::kSteps);
    for (std::int64_t place = 0; place < rows; place += kPanelRows) {
      const std::int64_t count = std::min(kPanelRows, rows - place);
      T* const c = c_ + (row + place) * c_leading_ + strip.column;
      if (packs_)
        Panel<S, Arithmetic>::multiply(depth, panels + place * depth, count, strip, packed, c, c_leading_, accumulate);
      else if constexpr (kReadsInPlace)
        product_tile::Multipliers<Arithmetic>::of(count, strip.vectors)(
            depth,
            {a_.rows_from(row + place).columns_from(begin).data, a_.transposed ? 1 : a_.leading,
             a_.transposed ? a_.leading : 1},
            packed, c, c_leading_, strip.columns, accumulate);
    }
  }

  const std::int64_t rows_;
  const StripCuts<Arithmetic>& cuts_;
  const bool packs_;
  const MatrixView<S> a_;
  T* const c_;
  const std::int64_t c_leading_;
};

/// A product of at least one step. `pack(cuts, block, part, to)` packs of b what is used at once.
template <class Arithmetic, class S, class Pack>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<S>& a, const Pack& pack,
              typename Arithmetic::Sum* c, std::int64_t c_leading, bool accumulate) {
  using Packed = typename Arithmetic::Packed;
  const StripCuts<Arithmetic> cuts(k, n);
  const LeftRows<S, Arithmetic> rows(m, cuts, a, c, c_leading);
  const std::int64_t strip_elements = cuts.most_elements() + StripCuts<Arithmetic>::kLanes;
  const LentBlock memory(static_cast<std::size_t>(strip_elements + rows.panel_elements()) * sizeof(Packed));
  Packed* const strips = memory.data<Packed>();
  [[maybe_unused]] const typename Panel<S, Arithmetic>::Use use{};
  for (std::int64_t block = 0; block < cuts.blocks(); ++block)
    for (std::int64_t part = 0; part < cuts.parts(); ++part) {
      pack(cuts, block, part, strips);
      rows.multiply(block, part, cuts.steps(part), n, strips, strips + strip_elements, accumulate || part > 0);
    }
}

/// `gemm` of more than kFewRows rows, in any arithmetic.
template <class Arithmetic, class S>
void multiply_matrix(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<S>& a, const MatrixView<S>& b,
                     typename Arithmetic::Sum* c, std::int64_t c_leading, bool accumulate) {
  multiply<Arithmetic>(
      m, n, k, a,
      [&b](const StripCuts<Arithmetic>& cuts, std::int64_t block, std::int64_t part, typename Arithmetic::Packed* to) {
        pack_strips(cuts, b, block, part, to);
      },
      c, c_leading, accumulate);
}

/// `gemm_by_parts` in any arithmetic.
template <class Arithmetic, class S>
void multiply_parts(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<S>& a,
                    FunctionRef<void(const StripPart&, typename Arithmetic::Packed*)> write,
                    typename Arithmetic::Sum* c, std::int64_t c_leading, bool accumulate) {
  using Packed = typename Arithmetic::Packed;
  constexpr std::int64_t kLanes = StripCuts<Arithmetic>::kLanes;
  const auto write_all = [&](const StripCuts<Arithmetic>& cuts, std::int64_t block, std::int64_t part, Packed* to) {
    cuts.for_each_strip(block, [&](const Strip& strip) {
      write({cuts.first_step(part), cuts.steps(part), strip.column, strip.columns, strip.vectors * kLanes},
            to + strip.place * cuts.packed_steps(part) * kLanes);
    });
  };
  multiply<Arithmetic>(m, n, k, a, write_all, c, c_leading, accumulate);
}

}  // namespace tutti::gemm_blocks
