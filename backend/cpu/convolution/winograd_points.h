// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transforms of Winograd's filtering F(4, 3) along one axis, at the points 0, +-b, +-a and infinity with a =
// sqrt(2) and b = 1 / a: products of p^i of values and taps at a point p are values of the product of their polynomials
// there. These points make the least rounding error among +-c, +-1/c: about half of that of the usual 0, +-1 and +-2.

#include <tutti/backend/cpu/packs/native_vector.h>

#include <cstdint>

namespace tutti::winograd {

inline constexpr std::int64_t kResults = 4;  ///< results of a tile along an axis
inline constexpr std::int64_t kTaps = 3;
inline constexpr std::int64_t kPoints = 6;
inline constexpr float kRoot = 1.41421356237309515F;      // a
inline constexpr float kHalfRoot = 0.70710678118654757F;  // b

using Vector = Native<float>;
constexpr std::int64_t kLanes = kNativeLanes<float>;

// Each reads every `from`-th vector and writes every `to`-th.

/// Evaluates what a tile sees, kPoints elements, at the points.
TUTTI_ALWAYS_INLINE void evaluate_seen(const Vector* d, std::int64_t from, Vector* v, std::int64_t to) {
  const Vector d0 = d[0], d1 = d[from], d2 = d[2 * from], d3 = d[3 * from], d4 = d[4 * from], d5 = d[5 * from];
  const Vector even_b = d4 - 2.0F * d2, odd_b = kHalfRoot * d3 - kRoot * d1;
  const Vector even_a = d4 - 0.5F * d2, odd_a = kRoot * d3 - kHalfRoot * d1;
  v[0] = d0 + (d4 - 2.5F * d2);
  v[to] = even_b + odd_b;
  v[2 * to] = even_b - odd_b;
  v[3 * to] = even_a + odd_a;
  v[4 * to] = even_a - odd_a;
  v[5 * to] = d1 + (d5 - 2.5F * d3);
}

/// Evaluates taps at the points, with the factors of interpolation.
TUTTI_ALWAYS_INLINE void evaluate_taps(const Vector* g, std::int64_t from, Vector* u, std::int64_t to) {
  constexpr float kOfB = -1.0F / 1.5F, kOfA = 1.0F / 6.0F;
  const Vector g0 = g[0], g1 = g[from], g2 = g[2 * from];
  const Vector even_b = kOfB * (g0 + 0.5F * g2), odd_b = (kOfB * kHalfRoot) * g1;
  const Vector even_a = kOfA * (g0 + 2.0F * g2), odd_a = (kOfA * kRoot) * g1;
  u[0] = g0;
  u[to] = even_b + odd_b;
  u[2 * to] = even_b - odd_b;
  u[3 * to] = even_a + odd_a;
  u[4 * to] = even_a - odd_a;
  u[5 * to] = g2;
}

/// Computes the results of a tile from products at the points.
TUTTI_ALWAYS_INLINE void interpolate_results(const Vector* m, std::int64_t from, Vector* y, std::int64_t to) {
  const Vector even_b = m[from] + m[2 * from], odd_b = m[from] - m[2 * from];
  const Vector even_a = m[3 * from] + m[4 * from], odd_a = m[3 * from] - m[4 * from];
  y[0] = m[0] + (even_b + even_a);
  y[to] = kHalfRoot * odd_b + kRoot * odd_a;
  y[2 * to] = 0.5F * even_b + 2.0F * even_a;
  y[3 * to] = m[5 * from] + ((0.5F * kHalfRoot) * odd_b + (2.0F * kRoot) * odd_a);
}

/// Transposes `interpolate_results`: computes the gradient of products from that of a tile's results.
TUTTI_ALWAYS_INLINE void spread_results(const Vector* y, std::int64_t from, Vector* m, std::int64_t to) {
  const Vector y0 = y[0], y1 = y[from], y2 = y[2 * from], y3 = y[3 * from];
  const Vector even_b = y0 + 0.5F * y2, odd_b = kHalfRoot * (y1 + 0.5F * y3);
  const Vector even_a = y0 + 2.0F * y2, odd_a = kRoot * (y1 + 2.0F * y3);
  m[0] = y0;
  m[to] = even_b + odd_b;
  m[2 * to] = even_b - odd_b;
  m[3 * to] = even_a + odd_a;
  m[4 * to] = even_a - odd_a;
  m[5 * to] = y3;
}

/// Transposes `evaluate_taps`: computes the gradient of taps from that of their values at the points.
TUTTI_ALWAYS_INLINE void gather_taps(const Vector* u, std::int64_t from, Vector* g, std::int64_t to) {
  constexpr float kOfB = -1.0F / 1.5F, kOfA = 1.0F / 6.0F;
  const Vector even_b = kOfB * (u[from] + u[2 * from]), odd_b = (kOfB * kHalfRoot) * (u[from] - u[2 * from]);
  const Vector even_a = kOfA * (u[3 * from] + u[4 * from]), odd_a = (kOfA * kRoot) * (u[3 * from] - u[4 * from]);
  g[0] = u[0] + (even_b + even_a);
  g[to] = odd_b + odd_a;
  g[2 * to] = u[5 * from] + (0.5F * even_b + 2.0F * even_a);
}

}  // namespace tutti::winograd
