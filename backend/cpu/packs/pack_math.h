// SPDX-License-Identifier: Apache-2.0
#pragma once

// Mathematics on packs, found by argument from elementwise operations. f32: within 4 ulp (6 of normal_distribution, for
// numbers up to 13.1) of the exact value wherever that is finite and normal, by polynomials fitted to Chebyshev nodes;
// f64: the C++ library's, lane by lane.

#include <tutti/backend/cpu/packs/pack.h>
#include <tutti/backend/elementwise/normal_distribution.h>

#include <limits>

namespace tutti {
namespace pack_math {

using F = Pack<float>;
using I = Pack<std::int32_t>;

template <std::size_t N> TUTTI_ALWAYS_INLINE F polynomial(const F& x, const float (&highest_first)[N]) {
  F r(highest_first[0]);
  for (std::size_t i = 1; i < N; ++i) r = fma(r, x, F(highest_first[i]));
  return r;
}

template <int bits> TUTTI_ALWAYS_INLINE I shift_left(const I& x) {
  I r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = x.part[i] << bits;
  return r;
}
template <int bits> TUTTI_ALWAYS_INLINE I shift_right(const I& x) {
  I r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = x.part[i] >> bits;
  return r;
}
TUTTI_ALWAYS_INLINE I bit_and(const I& x, std::int32_t mask) {
  I r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = x.part[i] & mask;
  return r;
}
TUTTI_ALWAYS_INLINE I bit_or(const I& x, const I& y) {
  I r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = x.part[i] | y.part[i];
  return r;
}
TUTTI_ALWAYS_INLINE F to_floats(const I& x) {
  F r;
  for (std::size_t i = 0; i < kPackVectors; ++i) r.part[i] = __builtin_convertvector(x.part[i], Native<float>);
  return r;
}

constexpr std::int32_t kSignBit = std::numeric_limits<std::int32_t>::min();

TUTTI_ALWAYS_INLINE F magnitude(const F& x) { return from_bits<float>(bit_and(to_bits(x), ~kSignBit)); }
/// `x`, which is not negative, with the sign of `sign`.
TUTTI_ALWAYS_INLINE F with_sign(const F& x, const F& sign) {
  return from_bits<float>(bit_or(to_bits(x), bit_and(to_bits(sign), kSignBit)));
}

/// exp(x) = 2^n * mantissa with n whole, for |x| < 2^21: Cody and Waite's reduction by ln 2 in two parts.
struct ExpParts {
  F mantissa_less_one;
  I exponent;
};
TUTTI_ALWAYS_INLINE ExpParts exp_parts(const F& x) {
  const F shifter(12582912.0F);  // 1.5 * 2^23: adding it rounds to a whole number, found in the lowest bits
  const F shifted = fma(x, F(1.44269504F), shifter);
  const F n = shifted - shifter;
  const F r = fma(n, F(-1.42860677e-6F), fma(n, F(-0.693145752F), x));
  const float coefficients[] = {0.001392618359F, 0.008363179053F, 0.04166655462F, 0.1666657699F, 0.5F};
  return {fma(r * r, polynomial(r, coefficients), r), to_bits(shifted) - to_bits(shifter)};
}

/// 2^n for a normal result.
TUTTI_ALWAYS_INLINE F power_of_two(const I& n) { return from_bits<float>(shift_left<23>(n + I(127))); }

/// exp(x) for -87 < x < 88, or NaN.
TUTTI_ALWAYS_INLINE F exp_normal(const F& x) {
  const ExpParts parts = exp_parts(x);
  return (parts.mantissa_less_one + F(1)) * power_of_two(parts.exponent);
}

/// log(x) for 0 < x < inf and normal; `exponent` is added to that of x.
TUTTI_ALWAYS_INLINE F log_normal(const F& x, const I& exponent) {
  // x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)
  const I offset = to_bits(x) - to_bits(F(0.70710678F));
  const F e = to_floats(shift_right<23>(offset) + exponent);
  const F f = from_bits<float>(bit_and(offset, 0x007FFFFF) + to_bits(F(0.70710678F))) - F(1);
  const float coefficients[] = {-0.07902743772F, 0.1262231985F, -0.1299818376F, 0.1421449592F,
                                -0.1664128146F,  0.2000104509F, -0.2500030642F, 0.3333333073F};
  const F square = f * f;
  const F tail = fma(e, F(1.42860677e-6F), f * square * polynomial(f, coefficients));
  return fma(e, F(0.693145752F), f + fma(square, F(-0.5F), tail));
}

template <class T, class Function> TUTTI_ALWAYS_INLINE Pack<T> by_lane(const Pack<T>& x, Function function) {
  alignas(kPackBytes) T lanes[Pack<T>::kLanes];
  x.store(lanes);
  for (T& lane : lanes) lane = function(lane);
  return Pack<T>::load(lanes);
}

}  // namespace pack_math

template <class T> TUTTI_ALWAYS_INLINE Pack<T> abs(const Pack<T>& x) {
  if constexpr (std::is_floating_point_v<T>) {
    Pack<MaskLane<T>> bits = to_bits(x);
    for (auto& part : bits.part) part &= std::numeric_limits<MaskLane<T>>::max();
    return from_bits<T>(bits);
  } else {
    return select(x < Pack<T>(0), -x, x);
  }
}

/// Results below the normal numbers are gradual, above the largest they are inf. Below -104, where they round to
/// 0, nothing is computed: each subnormal product costs a processor some 150 cycles, and what a mask hides is -inf.
TUTTI_ALWAYS_INLINE Pack<float> exp(const Pack<float>& x) {
  using namespace pack_math;
  const F high(89.0F);
  const PackMask<float> vanishes = x < F(-104.0F);
  const F clamped = select(x > high, high, select(vanishes, F(0), x));
  const ExpParts parts = exp_parts(clamped);
  const I half = shift_right<1>(parts.exponent);  // 2^n itself need not be normal
  const F result = (parts.mantissa_less_one + F(1)) * power_of_two(half) * power_of_two(parts.exponent - half);
  return select(vanishes, F(0), result);
}

/// exp(x) - 1 = 2^n (mantissa - 1) + (2^n - 1); in two halves, as 2^n itself may be beyond the largest.
TUTTI_ALWAYS_INLINE Pack<float> expm1(const Pack<float>& x) {
  using namespace pack_math;
  const F low(-30.0F);
  const F high(89.0F);
  const F clamped = select(x > high, high, select(x < low, low, x));
  const ExpParts parts = exp_parts(clamped);
  const F half_power = power_of_two(parts.exponent - I(1));
  const F half = fma(parts.mantissa_less_one, half_power, half_power - F(0.5F));
  return select(x == F(0), x, half + half);  // -0 stays
}

TUTTI_ALWAYS_INLINE Pack<float> log(const Pack<float>& x) {
  using namespace pack_math;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const PackMask<float> small = x < F(std::numeric_limits<float>::min());
  const F scaled = select(small, x * F(8388608.0F), x);
  const F result = log_normal(scaled, to_bits(select(small, from_bits<float>(I(-23)), F(0))));
  const F special = select(x == F(0), F(-kInfinity), select(x < F(0), F(std::numeric_limits<float>::quiet_NaN()), x));
  return select((x > F(0)) & (x < F(kInfinity)), result, special);
}

/// log(1 + x) from u = 1 + x rounded, and what the rounding lost.
TUTTI_ALWAYS_INLINE Pack<float> log1p(const Pack<float>& x) {
  using namespace pack_math;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const F u = F(1) + x;
  const F lost = select(x < F(1), x - (u - F(1)), F(1) - (u - x));
  const F result = log_normal(u, I(0)) + lost / u;
  const PackMask<float> inside = (x > F(-1)) & (x < F(kInfinity)) & (x != F(0));
  const F special = select(x == F(-1), F(-kInfinity), select(x < F(-1), F(std::numeric_limits<float>::quiet_NaN()), x));
  return select(inside, result, special);
}

TUTTI_ALWAYS_INLINE Pack<float> tanh(const Pack<float>& x) {
  using namespace pack_math;
  const F a = magnitude(x);
  const F square = a * a;
  const float coefficients[] = {-0.006096714166F, 0.020997179F, -0.05385090958F, 0.1333276974F, -0.3333332894F};
  const F small = fma(a * square, polynomial(square, coefficients), a);
  const F large = F(1) - F(2) / (exp_normal(select(a > F(20), F(40), a + a)) + F(1));
  return with_sign(select(a < F(0.625F), small, large), x);
}

/// An odd polynomial near 0, 1 - exp(polynomial) beyond.
TUTTI_ALWAYS_INLINE Pack<float> erf(const Pack<float>& x) {
  using namespace pack_math;
  const F a = magnitude(x);
  const float inner[] = {-0.0006102687037F, 0.005014484151F, -0.02678071913F,
                         0.1128219409F,     -0.376125288F,   0.1283791547F};
  const F small = fma(a, polynomial(a * a, inner), a);
  const float outer[] = {-1.393305976e-5F, 0.0003288907035F, -0.003522564534F, 0.0229719137F,
                         -0.1041488145F,   -0.6379538299F,   -1.126762475F,    -0.0005042945195F};
  const F large = F(1) - exp_normal(polynomial(select(a > F(4), F(4), a), outer));
  return with_sign(select(a < F(0.9F), small, large), x);
}

/// The share below x as the density times a polynomial in 1 / (1 + 0.26 |x|), or 1 less that of -x: its relative error
/// stays small however far x is below 0. Beyond 13.1 the smaller one is 0.
TUTTI_ALWAYS_INLINE elementwise::NormalDistribution<Pack<float>> normal_distribution(const Pack<float>& x) {
  using namespace pack_math;
  const F a = magnitude(x);
  const F square = a * a;
  const F rounding = fma(a, a, -square);
  const F power = exp_normal(F(-0.5F) * square);
  const F exact = select(a > F(13.1F), F(0), fma(power * F(-0.5F), rounding, power));  // exp(-x^2 / 2)
  const F t = F(1) / fma(a, F(0.26F), F(1));
  const float tail[] = {0.030505798F, -0.15283288F, 0.25149887F, -0.15095674F, 0.16095264F,
                        0.051025871F, 0.10303067F,  0.10301670F, 0.10375906F};
  const F smaller = exact * (t * polynomial(t, tail));
  return {select(x > F(0), F(1) - smaller, smaller), exact * F(0.398942280F)};
}

TUTTI_ALWAYS_INLINE Pack<double> exp(const Pack<double>& x) {
  return pack_math::by_lane(x, [](double lane) { return std::exp(lane); });
}
TUTTI_ALWAYS_INLINE Pack<double> log(const Pack<double>& x) {
  return pack_math::by_lane(x, [](double lane) { return std::log(lane); });
}
TUTTI_ALWAYS_INLINE Pack<double> log1p(const Pack<double>& x) {
  return pack_math::by_lane(x, [](double lane) { return std::log1p(lane); });
}
TUTTI_ALWAYS_INLINE Pack<double> tanh(const Pack<double>& x) {
  return pack_math::by_lane(x, [](double lane) { return std::tanh(lane); });
}
TUTTI_ALWAYS_INLINE Pack<double> erf(const Pack<double>& x) {
  return pack_math::by_lane(x, [](double lane) { return std::erf(lane); });
}

}  // namespace tutti
