// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/elementwise/lanes.h>

#include <tutti/backend/array.h>
#include <tutti/backend/elementwise/lists.h>
#include <tutti/backend/operations.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

template <class T> using Elements = std::vector<T>;

/// Numbers of both signs, 0 among them; of floating types between -2 and 2, or 0 and 4.
template <class T> Elements<T> numbers(bool positive = false) {
  Elements<T> found;
  for (std::int64_t i = 0; i < Lanes<T>::kCount; ++i)
    found.push_back(
        static_cast<T>(static_cast<double>((i * 37) % 64 - (positive ? 0 : 32)) / (std::is_integral_v<T> ? 1 : 16)));
  return found;
}
template <class T> Elements<T> elements(const Lanes<T>& lanes) {
  Elements<T> found(static_cast<std::size_t>(Lanes<T>::kCount));
  lanes.store(found.data());
  return found;
}
template <class T> const Lanes<T>& at(const Elements<T>& from) { return Lanes<T>::at(from.data()); }

/// Same bits, or both NaN.
template <class T> bool same(const Elements<T>& a, const Elements<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0 && (a[i] == a[i] || b[i] == b[i])) return false;
  return a.size() == b.size();
}

template <class T> Elements<T> library(const auto& operation, const Elements<T>& x) {
  return apply(operation, Array::from(x, {Lanes<T>::kCount})).template to_vector<T>();
}
template <class T> Elements<T> library(const auto& operation, const Elements<T>& x, const Elements<T>& y) {
  return apply(operation, Array::from(x, {Lanes<T>::kCount}), Array::from(y, {Lanes<T>::kCount}))
      .template to_vector<T>();
}

template <class T> void check_arithmetic() {
  using namespace elementwise;
  const Elements<T> x = numbers<T>();
  const Elements<T> y = elements(at(numbers<T>(true)) + Lanes<T>(1));
  CHECK(same(elements(at(x) + at(y)), library(Add{}, x, y)));
  CHECK(same(elements(at(x) - at(y)), library(Subtract{}, x, y)));
  CHECK(same(elements(at(x) * at(y)), library(Multiply{}, x, y)));
  CHECK(same(elements(-at(x)), library(Negate{}, x)));
  CHECK(same(elements(abs(at(x))), library(Abs{}, x)));
  CHECK(same(elements(fmod(at(x), at(y))), library(Fmod{}, x, y)));
  CHECK(same(elements(floor_divide(at(x), at(y))), library(FloorDivide{}, x, y)));
  CHECK(same(elements(pow(at(y), Lanes<T>(2))), library(Pow{}, y, elements(Lanes<T>(2)))));
  const auto chosen = [&](const LanesMask<T>& mask) { return elements(select(mask, at(x), at(y))); };
  const auto by_hand = [&](auto compare) {
    Elements<T> found;
    for (std::size_t i = 0; i < x.size(); ++i) found.push_back(compare(x[i]) ? x[i] : y[i]);
    return found;
  };
  const Lanes<T> one(1);
  CHECK(same(chosen(at(x) < one), by_hand([](T a) { return a < T(1); })));
  CHECK(same(chosen(at(x) <= one), by_hand([](T a) { return a <= T(1); })));
  CHECK(same(chosen(at(x) > one), by_hand([](T a) { return a > T(1); })));
  CHECK(same(chosen(at(x) >= one), by_hand([](T a) { return a >= T(1); })));
  CHECK(same(chosen(at(x) == one), by_hand([](T a) { return a == T(1); })));
  CHECK(same(chosen(at(x) != one), by_hand([](T a) { return a != T(1); })));
  CHECK(same(chosen((at(x) > one) & (at(x) <= Lanes<T>(2))), by_hand([](T a) { return a > T(1) && a <= T(2); })));
  CHECK(same(chosen((at(x) > one) | (at(x) == Lanes<T>(0))), by_hand([](T a) { return a > T(1) || a == T(0); })));
}

template <class T> void check_functions() {
  using namespace elementwise;
  const Elements<T> x = numbers<T>();
  const Elements<T> positive = numbers<T>(true);
#define TUTTI_SAME(function, Operation)                            \
  CHECK(same(elements(function(at(x))), library(Operation{}, x))); \
  CHECK(same(elements(function(at(positive))), library(Operation{}, positive)))
  TUTTI_SAME(sqrt, Sqrt);
  TUTTI_SAME(exp, Exp);
  TUTTI_SAME(expm1, Expm1);
  TUTTI_SAME(exp2, Exp2);
  TUTTI_SAME(log, Log);
  TUTTI_SAME(log1p, Log1p);
  TUTTI_SAME(log2, Log2);
  TUTTI_SAME(log10, Log10);
  TUTTI_SAME(sin, Sin);
  TUTTI_SAME(cos, Cos);
  TUTTI_SAME(tan, Tan);
  TUTTI_SAME(asin, Asin);
  TUTTI_SAME(acos, Acos);
  TUTTI_SAME(atan, Atan);
  TUTTI_SAME(sinh, Sinh);
  TUTTI_SAME(cosh, Cosh);
  TUTTI_SAME(tanh, Tanh);
  TUTTI_SAME(asinh, Asinh);
  TUTTI_SAME(acosh, Acosh);
  TUTTI_SAME(atanh, Atanh);
  TUTTI_SAME(erf, Erf);
  TUTTI_SAME(erfinv, Erfinv);
  TUTTI_SAME(floor, Floor);
  TUTTI_SAME(ceil, Ceil);
  TUTTI_SAME(nearbyint, Round);
  TUTTI_SAME(trunc, Trunc);
#undef TUTTI_SAME
  CHECK(same(elements(at(x) / at(positive)), library(Divide{}, x, positive)));
  CHECK(same(elements(atan2(at(x), at(positive))), library(Atan2{}, x, positive)));
}

}  // namespace

TEST_CASE("lanes: arithmetic, comparisons and choice are those of the library's operations") {
  check_arithmetic<float>();
  check_arithmetic<double>();
  check_arithmetic<std::int32_t>();
  check_arithmetic<std::int64_t>();
}

TEST_CASE("lanes: mathematics is the library's, to the bit") {
  check_functions<float>();
  check_functions<double>();
}

TEST_CASE("lanes: bits of integers and bools") {
  const Elements<std::int32_t> x = numbers<std::int32_t>();
  const Lanes<std::int32_t> six(6);
  const auto check = [&](const Lanes<std::int32_t>& found, auto bits) {
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(elements(found)[i] == bits(x[i]));
  };
  check(at(x) & six, [](int a) { return a & 6; });
  check(at(x) | six, [](int a) { return a | 6; });
  check(at(x) ^ six, [](int a) { return a ^ 6; });
  bool given[Lanes<bool>::kCount];
  bool found[Lanes<bool>::kCount];
  for (std::size_t i = 0; i < std::size(given); ++i) given[i] = i % 3 == 0;
  (Lanes<bool>::at(given) ^ Lanes<bool>(true)).store(found);
  for (std::size_t i = 0; i < std::size(given); ++i) CHECK(found[i] == (i % 3 != 0));
}

TEST_CASE("lanes: elements at any address") {
  Elements<double> x(70, 2);
  for (std::size_t begin = 0; begin < 6; ++begin)
    CHECK(elements(Lanes<double>::at(x.data() + begin) * Lanes<double>(3)) == Elements<double>(64, 6));
}

}  // namespace tutti

TEST_SUITE_END();
