// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loops over contiguous elements of floating types in packs, of which the last may be partial.

#include <tutti/backend/cpu/packs/pack_math.h>
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
