// SPDX-License-Identifier: Apache-2.0
// Every elementwise operation on packs: exact enough, and the same in every lane.
#include <tutti/backend/cpu/packs/pack_functions.h>
#include <tutti/backend/elementwise/activations.h>

#include <tutti/testing/devices/elementwise_samples.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numbers>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using namespace samples;

template <class T> bool same_bits(T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b); }

template <class T> T lane(const Pack<T>& pack, std::int64_t i) {
  T lanes[Pack<T>::kLanes];
  pack.store(lanes);
  return lanes[i];
}

/// `x` in lane i, other numbers around it.
template <class T> Pack<T> surrounded(T x, std::int64_t i) {
  T lanes[Pack<T>::kLanes];
  for (std::int64_t j = 0; j < Pack<T>::kLanes; ++j) lanes[j] = static_cast<T>(j == 3 ? -5 : j);
  lanes[i] = x;
  return Pack<T>::load(lanes);
}

template <class T> void check_special(const char* name, T found, T expected) {
  CAPTURE(name);
  if (std::isnan(expected))
    CHECK(std::isnan(found));
  else if (std::isinf(expected) || expected == T(0))
    CHECK(found == expected);
  else
    CHECK(std::abs(found - expected) <= 8 * std::numeric_limits<T>::epsilon() * std::abs(expected));
}

TEST_CASE("packs are within 4 ulp of double") {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    for (const float x : finite_floats()) {
      const double exact = O{}.value(static_cast<double>(x));
      if (!is_normal_f32(exact) || std::abs(x) > 4100) continue;
      if (elementwise::index_of<O>() == elementwise::index_of<elementwise::Silu>() && x < -88.0F)
        continue;  // exp is inf
      CAPTURE(O::name);
      CAPTURE(x);
      CHECK(std::abs(lane(O{}.value(Pack<float>(x)), 0) - exact) <= 4 * ulp_f32(error_scale<O>(exact, x)));
    }
  });
}

TEST_CASE("double packs agree with the C++ library") {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    for (const float x : finite_floats())
      check_special(O::name, lane(O{}.value(Pack<double>(x)), 0), O{}.value(static_cast<double>(x)));
  });
}

TEST_CASE_TEMPLATE("packs treat NaN, infinities and signed zeros as scalars do", T, float, double) {
  elementwise::UnaryOperations::for_each([]<class O>(std::type_identity<O>) {
    for (const T x : special_floats<T>()) {
      CAPTURE(x);
      check_special(O::name, lane(O{}.value(Pack<T>(x)), 0), O{}.value(x));
    }
  });
  elementwise::BinaryOperations::for_each([]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O>)
      for (const T a : special_floats<T>())
        for (const T b : special_floats<T>())
          check_special(O::name, lane(O{}.value(Pack<T>(a), Pack<T>(b)), 0), O{}.value(a, b));
  });
  CHECK(std::signbit(lane(tanh(Pack<T>(-0.0)), 0)));
  CHECK(std::signbit(lane(erf(Pack<T>(-0.0)), 0)));
  CHECK(std::signbit(lane(log1p(Pack<T>(-0.0)), 0)));
}

TEST_CASE("exp overflows to infinity and underflows gradually") {
  CHECK(lane(exp(Pack<float>(88.8F)), 0) == std::numeric_limits<float>::infinity());
  CHECK(lane(exp(Pack<float>(88.7F)), 0) == doctest::Approx(std::exp(88.7)).epsilon(1e-5));
  CHECK(lane(exp(Pack<float>(-100.0F)), 0) == doctest::Approx(std::exp(-100.0)).epsilon(0.05));
  CHECK(lane(exp(Pack<float>(-110.0F)), 0) == 0.0F);
  CHECK(lane(log(Pack<float>(1e-40F)), 0) == doctest::Approx(std::log(1e-40)).epsilon(1e-4));
}

TEST_CASE("the normal distribution is within 6 ulp, however far below 0, as is gelu") {
  for (float x = -12.5F; x < 12.5F; x += 0.0137F) {
    CAPTURE(x);
    const double below = 0.5 * std::erfc(-static_cast<double>(x) / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * static_cast<double>(x) * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const elementwise::NormalDistribution<Pack<float>> found = normal_distribution(Pack<float>(x));
    CHECK(std::abs(lane(found.below, 0) - below) <= 6 * ulp_f32(below));
    CHECK(std::abs(lane(found.density, 0) - density) <= 6 * ulp_f32(density));
    CHECK(std::abs(lane(elementwise::Gelu{}.value(Pack<float>(x)), 0) - x * below) <= 6 * ulp_f32(x * below));
    const double gradient = below + x * density;
    CHECK(std::abs(lane(elementwise::Gelu{}.gradient(Pack<float>(x), Pack<float>(1)), 0) - gradient) <=
          6 * ulp_f32(std::max(below, std::abs(x * density))));
  }
  CHECK(lane(normal_distribution(Pack<float>(-14)).below, 0) == 0.0F);
  CHECK(lane(elementwise::Gelu{}.value(Pack<float>(-1e30F)), 0) == 0.0F);
  CHECK(lane(elementwise::Gelu{}.value(Pack<float>(1e30F)), 0) == 1e30F);
}

TEST_CASE_TEMPLATE("a value does not depend on its lane", T, float, double) {
  const auto check_lanes = [](const char* name, auto&& value) {
    for (const double sample : kSmooth) {
      const T expected = lane(value(Pack<T>(sample)), 0);
      for (std::int64_t i = 0; i < Pack<T>::kLanes; ++i) {
        CAPTURE(name);
        CHECK(same_bits(lane(value(surrounded(static_cast<T>(sample), i)), i), expected));
      }
    }
  };
  elementwise::UnaryOperations::for_each([&]<class O>(std::type_identity<O>) {
    check_lanes(O::name, [](const Pack<T>& x) { return O{}.value(x); });
    check_lanes(O::name, [](const Pack<T>& x) { return gradient_of(O{}, x, Pack<T>(1.25)); });
  });
  elementwise::BinaryOperations::for_each([&]<class O>(std::type_identity<O>) {
    if constexpr (takes_floating<O>) {
      check_lanes(O::name, [](const Pack<T>& x) { return O{}.value(x, Pack<T>(0.75)); });
      check_lanes(O::name, [](const Pack<T>& x) { return gradient_lhs_of(O{}, x, Pack<T>(0.75), Pack<T>(1.25)); });
      check_lanes(O::name, [](const Pack<T>& x) { return gradient_rhs_of(O{}, Pack<T>(0.75), x, Pack<T>(1.25)); });
    }
  });
}

TEST_CASE_TEMPLATE("integer packs compute as scalars do", T, std::int32_t, std::int64_t) {
  elementwise::BinaryOperations::for_each([]<class O>(std::type_identity<O>) {
    if constexpr (takes_integers<O>)
      for (const T a : integers<T>())
        for (const T b : integers<T>()) {
          CAPTURE(O::name);
          CHECK(lane(O{}.value(Pack<T>(a), Pack<T>(b)), 5) == O{}.value(a, b));
        }
  });
}

TEST_CASE_TEMPLATE("masks are stored as bools", T, float, double, std::int32_t, std::int64_t) {
  T lanes[Pack<T>::kLanes];
  for (std::int64_t i = 0; i < Pack<T>::kLanes; ++i) lanes[i] = static_cast<T>(i);
  bool found[Pack<T>::kLanes];
  store_bools(Pack<T>::load(lanes) < Pack<T>(3), found);
  for (std::int64_t i = 0; i < Pack<T>::kLanes; ++i) CHECK(found[i] == (i < 3));
}

TEST_CASE("partial packs touch their elements only") {
  const float from[] = {1, 2, 3};
  const Pack<float> pack = Pack<float>::load_partial(from, 3, 9.0F);
  CHECK(lane(pack, 2) == 3.0F);
  CHECK(lane(pack, 3) == 9.0F);
  float to[] = {0, 0, 0};
  pack.store_partial(to, 2);
  CHECK(to[1] == 2.0F);
  CHECK(to[2] == 0.0F);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
