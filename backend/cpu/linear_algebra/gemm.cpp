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

/// Memory for packed operands, lent by the calling thread.
class PackedMemory {
 public:
  explicit PackedMemory(std::size_t bytes) : block_(KeptByThread<Block>::take()) {
    if (block_ != nullptr && block_->bytes >= bytes) return;
    block_.reset();
    block_ = std::make_unique<Block>(bytes);
  }
  ~PackedMemory() { KeptByThread<Block>::keep(std::move(block_)); }
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;

  void* data() const noexcept { return block_->data; }

 private:
  struct Block {
    static constexpr std::align_val_t kAlignment{64};
    std::size_t bytes;
    void* data;

    explicit Block(std::size_t size) : bytes(size), data(::operator new(size, kAlignment)) {}
    ~Block() { ::operator delete(data, kAlignment); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
  };

  std::unique_ptr<Block> block_;
};

/// A product of at least one step. b is packed in strips of a few vectors, a in panels of a few rows.
template <class T> class Product {
 public:
  Product(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
          std::int64_t c_leading)
      : columns_(n),
        depths_(Parts::of(kMostDepth, k)),
        rows_(m),
        column_blocks_{divide_up(n, kLanes), divide_up(n, kMostBlockColumns)},
        packs_rows_(n > kFewColumns),
        a_(a),
        b_(b),
        c_(c),
        c_leading_(c_leading) {}

  void compute(bool accumulate) {
    const std::int64_t strips = column_blocks_.longest() * kLanes * depths_.longest();
    const std::int64_t panels = packs_rows_ ? std::min(rows_, kMostBlockRows) * depths_.longest() : 0;
    const PackedMemory memory(static_cast<std::size_t>(strips + panels) * sizeof(T));
    packed_strips_ = static_cast<T*>(memory.data());
    packed_panels_ = packed_strips_ + strips;
    for (std::int64_t block = 0; block < column_blocks_.count; ++block)
      for (std::int64_t part = 0; part < depths_.count; ++part)
        add_block({column_blocks_.begin(block), column_blocks_.length(block)}, depths_.begin(part),
                  depths_.length(part), accumulate || part > 0);
  }

 private:
  static constexpr std::int64_t kLanes = kNativeLanes<T>;

  /// Vectors of columns that are packed together.
  struct Block {
    std::int64_t first;
    std::int64_t vectors;
  };
  struct Strip {
    std::int64_t column;   // the first
    std::int64_t columns;  // of the matrix: the last vector may have fewer than lanes
    std::int64_t vectors;
    T* packed;
  };

  /// Calls `f` for the strips of a block, which are as wide as can be, and none much narrower than the others.
  template <class F> void for_each_strip(const Block& block, std::int64_t depth, const F& f) const {
    std::int64_t vectors = 0;
    for (std::int64_t done = 0; done < block.vectors; done += vectors) {
      const std::int64_t left = block.vectors - done;
      vectors = left == kMostVectors + 1 ? left / 2 : std::min(left, kMostVectors);
      const std::int64_t column = (block.first + done) * kLanes;
      f(Strip{column, std::min(vectors * kLanes, columns_ - column), vectors, packed_strips_ + done * kLanes * depth});
    }
  }

  /// Steps [k, k + depth) of the columns of a block.
  void add_block(const Block& block, std::int64_t k, std::int64_t depth, bool accumulate) {
    pack_strips(block, k, depth);
    for (std::int64_t row = 0; row < rows_; row += kMostBlockRows) {
      const std::int64_t rows = std::min(kMostBlockRows, rows_ - row);
      if (packs_rows_) pack_panels(row, rows, k, depth);
      for_each_strip(block, depth, [&](const Strip& strip) { multiply(strip, row, rows, k, depth, accumulate); });
    }
  }

  /// Rows of b are read a few at a time, each from strip to strip, for a column of them often lies in as many pages.
  void pack_strips(const Block& block, std::int64_t k, std::int64_t depth) {
    constexpr std::int64_t kFewSteps = 4;
    const std::int64_t steps = b_.transposed ? depth : kFewSteps;
    for (std::int64_t done = 0; done < depth; done += steps)
      for_each_strip(block, depth, [&](const Strip& strip) {
        packing::kPack<T, kLanes, kMostVectors>[static_cast<std::size_t>(strip.vectors - 1)](
            b_.rows_from(k + done).columns_from(strip.column).data, b_.leading, b_.transposed,
            std::min(steps, depth - done), strip.columns, strip.packed + done * strip.vectors * kLanes);
      });
  }

  void pack_panels(std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t depth) {
    for (std::int64_t place = 0; place < rows; place += kMostRows) {
      const std::int64_t count = std::min(kMostRows, rows - place);
      packing::kPack<T, 1, kMostRows>[static_cast<std::size_t>(count - 1)](
          a_.rows_from(row + place).columns_from(k).data, a_.leading, !a_.transposed, depth, count,
          packed_panels_ + place * depth);
    }
  }

  void multiply(const Strip& strip, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t depth,
                bool accumulate) const {
    using product_tile::Multipliers;
    const std::int64_t across = a_.transposed ? 1 : a_.leading;
    const std::int64_t step = a_.transposed ? a_.leading : 1;
    for (std::int64_t place = 0; place < rows; place += kMostRows) {
      const std::int64_t count = std::min(kMostRows, rows - place);
      T* const c = c_ + (row + place) * c_leading_ + strip.column;
      if (packs_rows_)
        Multipliers<T>::of_packed(count, strip.vectors)(depth, {packed_panels_ + place * depth, 1, count}, strip.packed,
                                                        c, c_leading_, strip.columns, accumulate);
      else
        Multipliers<T>::of(count, strip.vectors)(depth, {a_.rows_from(row + place).columns_from(k).data, across, step},
                                                 strip.packed, c, c_leading_, strip.columns, accumulate);
    }
  }

  const std::int64_t columns_;
  const Parts depths_;
  const std::int64_t rows_;
  const Parts column_blocks_;  // in vectors
  const bool packs_rows_;      // else a is read where it is
  const MatrixView<T> a_;
  const MatrixView<T> b_;
  T* const c_;
  const std::int64_t c_leading_;
  T* packed_strips_ = nullptr;
  T* packed_panels_ = nullptr;
};

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

template <class T> MatrixView<T> transposed(const MatrixView<T>& matrix) {
  return {matrix.data, matrix.leading, !matrix.transposed};
}

}  // namespace

template <class T> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                             std::int64_t c_leading, bool accumulate) {
  static_assert(kFewRows == 4);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m && !accumulate; ++i) std::fill_n(c + i * c_leading, n, T(0));
    return;
  }
  if (n == 1 && c_leading == 1) return multiply_few<T, 1>(m, k, transposed(b), transposed(a), c, m, accumulate);
  switch (m) {
    case 1: return multiply_few<T, 1>(n, k, a, b, c, c_leading, accumulate);
    case 2: return multiply_few<T, 2>(n, k, a, b, c, c_leading, accumulate);
    case 3: return multiply_few<T, 3>(n, k, a, b, c, c_leading, accumulate);
    case 4: return multiply_few<T, 4>(n, k, a, b, c, c_leading, accumulate);
    default: Product<T>(m, n, k, a, b, c, c_leading).compute(accumulate);
  }
}

template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t,
                   bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                   std::int64_t, bool);

}  // namespace tutti
