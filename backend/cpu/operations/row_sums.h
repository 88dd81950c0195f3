// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums over elements that lie together, exact enough for statistics of any length.

#include <tutti/backend/cpu/operations/reduce_kernels.h>
#include <tutti/backend/cpu/packs/pack_loops.h>

#include <cstdint>

namespace tutti::row_sums {

/// Packs in the element type over short blocks, blocks in double: the error does not grow with the count.
template <class T> class PackSum {
 public:
  TUTTI_ALWAYS_INLINE void add(const Pack<T>& x) {
    block_ = block_ + x;
    if (++count_ == kBlock) widen();
  }
  double total() {
    widen();
    double sum = 0;
    for (const double lane : lanes_) sum += lane;
    return sum;
  }

 private:
  static constexpr int kBlock = 32;
  void widen() {
    reduce_kernel::FloatSum<T, false>::widen(block_, lanes_);
    block_ = Pack<T>(0);
    count_ = 0;
  }

  Pack<T> block_{0};
  int count_ = 0;
  alignas(kPackBytes) double lanes_[Pack<T>::kLanes] = {};
};

template <class S> double sum_in_double(const S* from, std::int64_t length) {
  using T = ComputedIn<S>;
  if constexpr (std::is_same_v<S, T>) {
    typename reduce_kernel::FloatSum<T, false>::Row row;
    row.add(from, length);
    return row.total();
  } else {
    PackSum<T> sum;
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) { sum.add(load_wide_up_to(from + i, count)); });
    return sum.total();
  }
}

/// The sum of (x - mean)^2.
template <class T> double squares_around(T mean, const T* from, std::int64_t length) {
  PackSum<T> squares;
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    const Pack<T> distance = load_wide_padded(from + i, count, mean) - Pack<T>(mean);
    squares.add(distance * distance);
  });
  return squares.total();
}

struct Distances {
  double sum;      // sum of x - place
  double squares;  // sum of (x - place)^2
};

/// Sums of distances from a place near the elements.
template <class S> Distances distances_from(ComputedIn<S> place, const S* from, std::int64_t length) {
  using T = ComputedIn<S>;
  PackSum<T> sum;
  PackSum<T> squares;
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    const Pack<T> distance = load_wide_padded(from + i, count, place) - Pack<T>(place);
    sum.add(distance);
    squares.add(distance * distance);
  });
  return {sum.total(), squares.total()};
}

}  // namespace tutti::row_sums
