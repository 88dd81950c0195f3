// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loops over contiguous elements of floating types in packs, of which the last may be partial.

#include <tutti/backend/cpu/packs/pack_math.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/dtype.h>

#include <algorithm>

namespace tutti {

/// The first `count` elements from `from` on, at most a pack.
template <class T> TUTTI_ALWAYS_INLINE Pack<T> load_up_to(const T* from, std::int64_t count) {
  return count == Pack<T>::kLanes ? Pack<T>::load(from) : Pack<T>::load_partial(from, count);
}
template <class T> TUTTI_ALWAYS_INLINE void store_up_to(const Pack<T>& pack, T* to, std::int64_t count) {
  if (count == Pack<T>::kLanes)
    pack.store(to);
  else
    pack.store_partial(to, count);
}

/// The same of what elements are computed in.
template <class S> TUTTI_ALWAYS_INLINE Pack<ComputedIn<S>> load_wide_up_to(const S* from, std::int64_t count) {
  using T = ComputedIn<S>;
  if constexpr (std::is_same_v<S, T>) {
    return load_up_to(from, count);
  } else {
    Pack<T> pack;
    for (std::size_t i = 0; i < kPackVectors; ++i) {
      const auto first = static_cast<std::int64_t>(i) * kNativeLanes<T>;
      pack.part[i] = first + kNativeLanes<T> <= count ? load_wide(from + first)
                                                      : load_wide_first(from + std::min(first, count), count - first);
    }
    return pack;
  }
}

/// The same with `padding` in the lanes behind them.
template <class S>
TUTTI_ALWAYS_INLINE Pack<ComputedIn<S>> load_wide_padded(const S* from, std::int64_t count, ComputedIn<S> padding) {
  using T = ComputedIn<S>;
  if (count == Pack<T>::kLanes) return load_wide_up_to(from, count);
  if constexpr (std::is_same_v<S, T>) {
    return Pack<T>::load_partial(from, count, padding);
  } else {
    alignas(kPackBytes) T lanes[Pack<T>::kLanes];
    std::fill(lanes + count, lanes + Pack<T>::kLanes, padding);
    widen(from, lanes, count);
    return Pack<T>::load(lanes);
  }
}
/// Writes the first `count` lanes as elements, each rounded once.
template <class S>
TUTTI_ALWAYS_INLINE void store_narrow_up_to(const Pack<ComputedIn<S>>& pack, S* to, std::int64_t count) {
  using T = ComputedIn<S>;
  if constexpr (std::is_same_v<S, T>) {
    store_up_to(pack, to, count);
  } else if (count == Pack<T>::kLanes) {
    for (std::size_t i = 0; i < kPackVectors; ++i)
      store_narrow<S>(pack.part[i], to + static_cast<std::int64_t>(i) * kNativeLanes<T>);
  } else {
    alignas(kPackBytes) T lanes[Pack<T>::kLanes];
    pack.store(lanes);
    narrow(lanes, to, count);
  }
}

/// Calls `f(position, count)` for packs that cover [begin, end).
template <class T, class F> TUTTI_ALWAYS_INLINE void for_each_pack(std::int64_t begin, std::int64_t end, F&& f) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes;
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) f(i, kLanes);
  if (i < end) f(i, end - i);
}

/// Calls `f(std::type_identity<T>{})` with the C++ type of a floating dtype.
template <class F> decltype(auto) visit_floating(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(std::type_identity<double>{}) : f(std::type_identity<float>{});
}

}  // namespace tutti
