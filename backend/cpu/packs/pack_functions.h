// SPDX-License-Identifier: Apache-2.0
#pragma once

// Mathematics on packs that is rare enough to be the C++ library's, lane by lane: called, not inlined, so that kernels
// stay small. Steps to whole numbers are loops that compilers make vectors of.

#include <tutti/backend/cpu/packs/pack_math.h>
#include <tutti/backend/elementwise/inverse_error_function.h>
#include <tutti/backend/elementwise/powers.h>

namespace tutti {

namespace pack_math {

template <class T, class Function> [[gnu::noinline]] Pack<T> each_lane(Pack<T> x, Function function) {
  return by_lane(x, function);
}
template <class T, class Function> [[gnu::noinline]] Pack<T> each_lane(Pack<T> x, Pack<T> y, Function function) {
  alignas(kPackBytes) T lanes[Pack<T>::kLanes];
  alignas(kPackBytes) T others[Pack<T>::kLanes];
  x.store(lanes);
  y.store(others);
  for (std::int64_t i = 0; i < Pack<T>::kLanes; ++i) lanes[i] = function(lanes[i], others[i]);
  return Pack<T>::load(lanes);
}

}  // namespace pack_math

#define TUTTI_FUNCTION_OF_PACK(name)                                        \
  template <std::floating_point T> Pack<T> name(const Pack<T>& x) {         \
    return pack_math::each_lane(x, [](T lane) { return std::name(lane); }); \
  }
TUTTI_FUNCTION_OF_PACK(exp2)
TUTTI_FUNCTION_OF_PACK(log2)
TUTTI_FUNCTION_OF_PACK(log10)
TUTTI_FUNCTION_OF_PACK(sin)
TUTTI_FUNCTION_OF_PACK(cos)
TUTTI_FUNCTION_OF_PACK(tan)
TUTTI_FUNCTION_OF_PACK(asin)
TUTTI_FUNCTION_OF_PACK(acos)
TUTTI_FUNCTION_OF_PACK(atan)
TUTTI_FUNCTION_OF_PACK(sinh)
TUTTI_FUNCTION_OF_PACK(cosh)
TUTTI_FUNCTION_OF_PACK(asinh)
TUTTI_FUNCTION_OF_PACK(acosh)
TUTTI_FUNCTION_OF_PACK(atanh)
TUTTI_FUNCTION_OF_PACK(floor)
TUTTI_FUNCTION_OF_PACK(ceil)
TUTTI_FUNCTION_OF_PACK(nearbyint)
TUTTI_FUNCTION_OF_PACK(trunc)
#undef TUTTI_FUNCTION_OF_PACK

inline Pack<double> expm1(const Pack<double>& x) {
  return pack_math::each_lane(x, [](double lane) { return std::expm1(lane); });
}
template <std::floating_point T> Pack<T> erfinv(const Pack<T>& x) {
  return pack_math::each_lane(x, [](T lane) { return elementwise::erfinv(lane); });
}

template <class T> Pack<T> pow(const Pack<T>& x, const Pack<T>& y) {
  return pack_math::each_lane(x, y, [](T base, T exponent) { return elementwise::pow(base, exponent); });
}
template <class T> Pack<T> fmod(const Pack<T>& x, const Pack<T>& y) {
  return pack_math::each_lane(x, y, [](T a, T b) { return elementwise::fmod(a, b); });
}
template <class T> Pack<T> floor_divide(const Pack<T>& x, const Pack<T>& y) {
  return pack_math::each_lane(x, y, [](T a, T b) { return elementwise::floor_divide(a, b); });
}
template <std::floating_point T> Pack<T> atan2(const Pack<T>& x, const Pack<T>& y) {
  return pack_math::each_lane(x, y, [](T a, T b) { return std::atan2(a, b); });
}

}  // namespace tutti
