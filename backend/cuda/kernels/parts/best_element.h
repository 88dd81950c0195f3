// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/operation.h>

#include <cstdint>

namespace tutti::cuda_kernels {

/// The largest (or smallest) element seen and its place: the first of equals, and NaN wins. Of nothing at first.
template <class T, bool largest> struct BestElement {
  T value{};
  std::int64_t place = -1;

  TUTTI_HOST_DEVICE static BestElement combine(const BestElement& a, const BestElement& b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    if (a.beats(b)) return a;
    if (b.beats(a)) return b;
    return a.place < b.place ? a : b;
  }
  TUTTI_HOST_DEVICE void add(T x, std::int64_t at) { *this = combine(*this, {x, at}); }

  TUTTI_HOST_DEVICE bool beats(const BestElement& other) const {
    if (value != value) return other.value == other.value;
    return largest ? value > other.value : value < other.value;
  }
};

}  // namespace tutti::cuda_kernels
