// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parts of attention's kernels: matrices at a place of the leading axes, rows of scores, and products.

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/linear_algebra/matrix_of.h>
#include <tutti/backend/cpu/linear_algebra/right_operand.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/cpu/runtime/kept_by_thread.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::attention_parts {

/// Queries or keys that follow each other.
struct Positions {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t length() const { return end - begin; }
};

/// Some rows of one matrix, [rows, columns], whose columns have stride 1.
template <class T> struct HeadMatrix {
  T* data;
  std::int64_t leading;
  std::int64_t columns;

  HeadMatrix(const Array& array, std::int64_t place)
      : data(matrix_data<T>(array, place)), leading(array.strides()[array.rank() - 2]), columns(array.length(-1)) {}
  /// Rows without gaps.
  HeadMatrix(T* memory, std::int64_t width) : data(memory), leading(width), columns(width) {}
  T* row(std::int64_t i) const { return data + i * leading; }
  MatrixView<T> rows_from(std::int64_t i) const { return {row(i), leading}; }
  MatrixView<T> turned_from(std::int64_t i) const { return {row(i), leading, true}; }
};

/// The score of a key that is not seen.
template <class T> inline constexpr T kHidden = -std::numeric_limits<T>::infinity();

/// The mask's row of a query; adds it to scores, and hides keys.
template <class T> class MaskRow {
 public:
  MaskRow(const Array& mask, std::int64_t place, std::int64_t query, std::int64_t first_key) {
    if (!mask.defined()) return;
    step_ = mask.strides().back();
    const std::int64_t offset = query * mask.strides()[mask.rank() - 2] + first_key * step_;
    if (mask.dtype() == DType::boolean)
      seen_ = matrix_data<bool>(mask, place) + offset;
    else
      added_ = matrix_data<T>(mask, place) + offset;
  }

  void apply(T* scores, std::int64_t count) const {
    if (seen_ != nullptr)
      for (std::int64_t i = 0; i < count; ++i) scores[i] = seen_[i * step_] ? scores[i] : kHidden<T>;
    if (added_ != nullptr)
      for (std::int64_t i = 0; i < count; ++i) scores[i] += added_[i * step_];
  }

 private:
  std::int64_t step_ = 0;
  const bool* seen_ = nullptr;
  const T* added_ = nullptr;
};

/// The sum of `term(position, count)`, packs that cover [0, length): in short blocks, these in double.
template <class T, class Term> T sum_of_packs(std::int64_t length, const Term& term) {
  constexpr std::int64_t kBlock = 32 * Pack<T>::kLanes;
  double sum = 0;
  for (std::int64_t begin = 0; begin < length; begin += kBlock) {
    Pack<T> block(0);
    for_each_pack<T>(begin, std::min(begin + kBlock, length),
                     [&](std::int64_t i, std::int64_t count) { block = block + term(i, count); });
    sum += static_cast<double>(fold_lanes(block, [](const Pack<T>& a, const Pack<T>& b) { return a + b; }));
  }
  return static_cast<T>(sum);
}

/// The first `count` elements; behind them scores of what is hidden.
template <class T> TUTTI_ALWAYS_INLINE Pack<T> load_scores(const T* from, std::int64_t count) {
  return count == Pack<T>::kLanes ? Pack<T>::load(from) : Pack<T>::load_partial(from, count, kHidden<T>);
}

template <class T> void scale_row(const T* from, T factor, T* to, std::int64_t length) {
  const Pack<T> scale(factor);
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    store_up_to(load_up_to(from + i, count) * scale, to + i, count);
  });
}

/// Memory that a thread works in, and operands that it has packed.
template <class T> struct TileMemory {
  RightOperand<T> turned_keys;
  RightOperand<T> turned_values;
  RightOperand<T> keys;
  RightOperand<T> values;
  std::vector<T> queries;               // the queries of a tile, scaled
  std::vector<T> weights;               // their scores, then weights
  std::vector<T> gradients;             // the gradients of these
  std::array<std::vector<T>, 8> heads;  // a head's matrices of 16 bits, widened

  std::size_t bytes() const {
    std::size_t elements = queries.size() + weights.size() + gradients.size();
    for (const auto& each : heads) elements += each.size();
    return elements * sizeof(T) + turned_keys.bytes() + turned_values.bytes() + keys.bytes() + values.bytes();
  }
  /// Memory for `count` elements, whatever they are.
  static T* room(std::vector<T>& memory, std::int64_t count) {
    if (memory.size() < static_cast<std::size_t>(count)) memory.resize(static_cast<std::size_t>(count));
    return memory.data();
  }
};

/// The matrices of one head as they are computed on: where they lie, or of 16 bits copies in memory of the thread.
template <class S> class Head {
 public:
  using T = ComputedIn<S>;

  Head(std::int64_t place, TileMemory<T>& work) : place_(place), work_(work) {}

  HeadMatrix<T> read(const Array& array) {
    if constexpr (!is_short_float<S>) {
      return {array, place_};
    } else {
      const HeadMatrix<S> from(array, place_);
      const HeadMatrix<T> to = room(array);
      for (std::int64_t i = 0; i < array.length(-2); ++i) widen(from.row(i), to.row(i), to.columns);
      return to;
    }
  }
  /// Room for what is computed of the array, which `write` writes to it.
  HeadMatrix<T> result(const Array& array) {
    if constexpr (is_short_float<S>)
      return room(array);
    else
      return {array, place_};
  }
  void write(const HeadMatrix<T>& computed, const Array& array, Positions rows) const {
    if constexpr (is_short_float<S>) {
      const HeadMatrix<S> to(array, place_);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) narrow(computed.row(i), to.row(i), to.columns);
    }
  }

 private:
  HeadMatrix<T> room(const Array& array) {
    const std::int64_t columns = array.length(-1);
    return {TileMemory<T>::room(work_.heads[used_++], array.length(-2) * columns), columns};
  }

  std::int64_t place_;
  TileMemory<T>& work_;
  std::size_t used_ = 0;
};

/// Tile memory that the calling thread lends while this lives.
template <class T> class LentTileMemory {
 public:
  LentTileMemory() : work_(KeptByThread<TileMemory<T>>::take()) {
    if (work_ == nullptr) work_ = std::make_unique<TileMemory<T>>();
  }
  ~LentTileMemory() {
    if (work_->bytes() <= 2 * RightOperand<T>::kMostKept) KeptByThread<TileMemory<T>>::keep(std::move(work_));
  }
  LentTileMemory(const LentTileMemory&) = delete;
  LentTileMemory& operator=(const LentTileMemory&) = delete;
  TileMemory<T>& operator*() const { return *work_; }

 private:
  std::unique_ptr<TileMemory<T>> work_;
};

/// Queries whose scores exist at a time; a multiple of the rows of tiles of f32 and f64 (product_tile.h).
inline constexpr std::int64_t kTileRows = 24;

/// How many of the keys from `first` on a query sees, of `count`.
inline std::int64_t seen_of(const AttentionScores& scores, std::int64_t query, std::int64_t first, std::int64_t count) {
  return scores.causal ? std::clamp<std::int64_t>(query + 1 - first, 0, count) : count;
}

/// Calls `f(place, part, memory)` for parts of [0, length) at each of `places`, which begin with a tile: whole ones
/// where there are enough for all threads, which share packed operands then. `work` is of one place, in
/// multiplications.
template <class T, class F>
void for_each_part(ThreadPool& threads, std::int64_t places, std::int64_t length, std::int64_t work, const F& f) {
  constexpr std::int64_t kWorth = std::int64_t{1} << 18U;  // multiplications for another thread
  const std::int64_t tiles = divide_up(length, kTileRows);
  std::int64_t parts = 1;
  if (threads.threads() > 1 && places < 2 * threads.threads())
    parts = std::clamp<std::int64_t>(divide_up(4 * threads.threads(), places), 1, tiles);
  const std::int64_t grain = std::max<std::int64_t>(1, kWorth * parts / std::max<std::int64_t>(work, 1));
  const auto begin_of = [&](std::int64_t part) { return std::min(length, tiles * part / parts * kTileRows); };
  threads.parallel_for(places * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    const LentTileMemory<T> memory;
    for (std::int64_t i = begin; i < end; ++i)
      f(i / parts, Positions{begin_of(i % parts), begin_of(i % parts + 1)}, *memory);
  });
}

}  // namespace tutti::attention_parts
