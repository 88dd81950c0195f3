// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pack<T>: 64 bytes of elements that a CPU loop computes with at once, whatever the width of the target's vectors. It
// is the X of elementwise operations (backend/elementwise/operation.h). No lane knows of its neighbours or of its
// place, so a value never depends on where its element stood. Mathematics is in pack_math.h.

#include <tutti/backend/cpu/packs/native_vector.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tutti {

inline constexpr std::size_t kPackBytes = 64;
inline constexpr std::size_t kPackVectors = kPackBytes / kVectorBytes;

/// The type of an element in a register: bools are bytes that hold 0 or 1.
template <class T> using PackLane = std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>;
/// The integer as wide as a lane, of which masks are made: all bits set or none.
template <class T> using MaskLane =
    std::conditional_t<sizeof(T) == 8, std::int64_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int8_t>>;

template <class T> struct PackMask {
  Native<MaskLane<T>> part[kPackVectors];
};

template <class T> struct Pack {
  using Lane = PackLane<T>;
  static constexpr std::int64_t kLanes = kPackBytes / sizeof(Lane);

  Native<Lane> part[kPackVectors];

  Pack() = default;
  template <class Number>
    requires std::is_arithmetic_v<Number>
  TUTTI_ALWAYS_INLINE explicit Pack(Number number) {
    const Lane lane = static_cast<Lane>(static_cast<T>(number));
    for (auto& p : part) p = lane - Native<Lane>{};
  }

  TUTTI_ALWAYS_INLINE static Pack load(const T* from) {
    Pack pack;
    const auto* memory = reinterpret_cast<const NativeMemory<Lane>*>(from);
    for (std::size_t i = 0; i < kPackVectors; ++i) pack.part[i] = memory[i].vector;
    return pack;
  }
  TUTTI_ALWAYS_INLINE void store(T* to) const {
    auto* memory = reinterpret_cast<NativeMemory<Lane>*>(to);
    for (std::size_t i = 0; i < kPackVectors; ++i) memory[i].vector = part[i];
  }

  /// The first `count` elements; the lanes behind them hold 0.
  TUTTI_ALWAYS_INLINE static Pack load_partial(const T* from, std::int64_t count) {
    Pack pack;
    const auto* lanes = reinterpret_cast<const Lane*>(from);
    for (std::size_t i = 0; i < kPackVectors; ++i) {
      const std::int64_t first = std::min(first_lane(i), count);
      pack.part[i] = native_load_first<Lane>(lanes + first, count - first);
    }
    return pack;
  }
  /// The same with `padding` behind them.
  TUTTI_ALWAYS_INLINE static Pack load_partial(const T* from, std::int64_t count, T padding) {
    Pack pack = load_partial(from, count);
    const Native<MaskLane<T>> end = static_cast<MaskLane<T>>(count) - Native<MaskLane<T>>{};
    const Native<Lane> behind = Pack(padding).part[0];
    for (std::size_t i = 0; i < kPackVectors; ++i)
      pack.part[i] = native_indices<MaskLane<T>>(i) < end ? pack.part[i] : behind;
    return pack;
  }
  TUTTI_ALWAYS_INLINE void store_partial(T* to, std::int64_t count) const {
    auto* lanes = reinterpret_cast<Lane*>(to);
    for (std::size_t i = 0; i < kPackVectors; ++i) {
      const std::int64_t first = std::min(first_lane(i), count);
      native_store_first<Lane>(part[i], lanes + first, count - first);
    }
  }

 private:
  static constexpr std::int64_t first_lane(std::size_t vector) {
    return static_cast<std::int64_t>(vector) * kNativeLanes<Lane>;
  }
};

/// Writes masks as bools.
template <class T> TUTTI_ALWAYS_INLINE void store_bools(const PackMask<T>& mask, bool* to) {
  constexpr std::size_t kPerVector = kVectorBytes / sizeof(MaskLane<T>);
  using Bytes [[gnu::vector_size(kPerVector)]] = std::int8_t;
  for (std::size_t i = 0; i < kPackVectors; ++i) {
    const Bytes bytes = __builtin_convertvector(mask.part[i], Bytes) & 1;
    std::memcpy(to + i * kPerVector, &bytes, kPerVector);
  }
}

template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator+(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] + b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator-(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] - b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator*(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] * b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator/(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] / b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator-(const Pack<T>& a) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = -a.part[i];
  return r;
}

// Operations on each bit; integers and bools alone.
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator&(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] & b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator|(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] | b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> operator^(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] ^ b.part[i];
  return r;
}

template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator<(const Pack<T>& a, const Pack<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] < b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator<=(const Pack<T>& a, const Pack<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] <= b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator>(const Pack<T>& a, const Pack<T>& b) { return b < a; }
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator>=(const Pack<T>& a, const Pack<T>& b) { return b <= a; }
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator==(const Pack<T>& a, const Pack<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] == b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator!=(const Pack<T>& a, const Pack<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] != b.part[i];
  return r;
}

template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator==(const PackMask<T>& a, const PackMask<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = ~(a.part[i] ^ b.part[i]);
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator&(const PackMask<T>& a, const PackMask<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] & b.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE PackMask<T> operator|(const PackMask<T>& a, const PackMask<T>& b) {
  PackMask<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = a.part[i] | b.part[i];
  return r;
}

template <class T> TUTTI_ALWAYS_INLINE Pack<T> select(const PackMask<T>& mask, const Pack<T>& a, const Pack<T>& b) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = mask.part[i] ? a.part[i] : b.part[i];
  return r;
}

/// The lanes from `by` on, then those before them; or of each vector those, where `by` is less than a vector has.
template <std::size_t by, class T, std::size_t... lane>
TUTTI_ALWAYS_INLINE Pack<T> rotate_lanes(const Pack<T>& x, std::index_sequence<lane...>) {
  constexpr std::size_t kLanes = sizeof...(lane);
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i)
    if constexpr (by >= kLanes)
      r.part[i] = x.part[(i + by / kLanes) % kPackVectors];
    else
      r.part[i] = __builtin_shufflevector(x.part[i], x.part[i], static_cast<int>((lane + by) % kLanes)...);
  return r;
}

/// One value of all lanes: `f(pack, pack)`, which takes lane by lane, of their lower and upper halves, of the halves of
/// its result, and so on.
template <class T, class F, std::size_t half = static_cast<std::size_t>(Pack<T>::kLanes) / 2>
TUTTI_ALWAYS_INLINE T fold_lanes(const Pack<T>& x, const F& f) {
  using VectorLanes = std::make_index_sequence<static_cast<std::size_t>(kNativeLanes<typename Pack<T>::Lane>)>;
  const Pack<T> folded = f(x, rotate_lanes<half>(x, VectorLanes{}));
  if constexpr (half == 1)
    return static_cast<T>(folded.part[0][0]);
  else
    return fold_lanes<T, F, half / 2>(folded, f);
}

/// a * b + c, rounded once where the target can.
template <class T> TUTTI_ALWAYS_INLINE Pack<T> fma(const Pack<T>& a, const Pack<T>& b, const Pack<T>& c) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = native_fma(a.part[i], b.part[i], c.part[i]);
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> sqrt(const Pack<T>& x) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = native_sqrt(x.part[i]);
  return r;
}

/// The same bits as integers, and back.
template <class T> TUTTI_ALWAYS_INLINE Pack<MaskLane<T>> to_bits(const Pack<T>& x) {
  Pack<MaskLane<T>> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = (Native<MaskLane<T>>)x.part[i];
  return r;
}
template <class T> TUTTI_ALWAYS_INLINE Pack<T> from_bits(const Pack<MaskLane<T>>& x) {
  Pack<T> r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = (Native<T>)x.part[i];
  return r;
}

}  // namespace tutti
