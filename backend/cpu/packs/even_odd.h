// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/packs/native_vector.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti {

/// Lanes 0, 2, 4, ... of two vectors, one after the other, and lanes 1, 3, 5, ...
template <class T> struct EvenOdd {
  Native<T> even;
  Native<T> odd;

  TUTTI_ALWAYS_INLINE EvenOdd(const Native<T>& a, const Native<T>& b)
      : EvenOdd(a, b, std::make_index_sequence<static_cast<std::size_t>(kNativeLanes<T>)>{}) {}

 private:
  template <std::size_t... i>
  TUTTI_ALWAYS_INLINE EvenOdd(const Native<T>& a, const Native<T>& b, std::index_sequence<i...>)
      : even(__builtin_shufflevector(a, b, (2 * static_cast<int>(i))...)),
        odd(__builtin_shufflevector(a, b, (2 * static_cast<int>(i) + 1)...)) {}
};

}  // namespace tutti
