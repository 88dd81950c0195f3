// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/numbers/sort_key.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace tutti {
namespace {

using Places = std::vector<std::int64_t>;

template <class T> std::vector<T> ascending_specials() {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity)
    return {
        -Limits::infinity(), Limits::lowest(),   T(-1), -Limits::min(), T(0), Limits::denorm_min(), T(1), Limits::max(),
        Limits::infinity(),  Limits::quiet_NaN()};
  else
    return {Limits::lowest(), T(-5), T(0), T(5), Limits::max()};
}

TEST_CASE_TEMPLATE("keys are in the order of the elements", T, float, double, std::int32_t, std::int64_t) {
  const std::vector<T> values = ascending_specials<T>();
  for (std::size_t i = 1; i < values.size(); ++i) {
    CHECK(sort_key(values[i - 1], false) < sort_key(values[i], false));
    CHECK(sort_key(values[i - 1], true) > sort_key(values[i], true));
  }
  if constexpr (std::is_floating_point_v<T>) {
    CHECK(sort_key(T(-0.0), false) == sort_key(T(0), false));
    CHECK(sort_key(-values.back(), true) == sort_key(values.back(), true));
  }
}

TEST_CASE_TEMPLATE("argsort is stable, along any axis of any view", T, float, double, std::int32_t, std::int64_t) {
  std::mt19937 engine(3);
  std::vector<T> values(7 * 130);
  for (T& value : values) value = static_cast<T>(static_cast<int>(engine() % 40) - 20);
  const Array lines = Array::from(values, {7, 130}, test_device());
  for (const bool descending : {false, true}) {
    const auto found = arg_sort(lines, 1, descending).template to_vector<std::int64_t>();
    for (std::size_t line = 0; line < 7; ++line) {
      Places expected(130);
      std::iota(expected.begin(), expected.end(), 0);
      const auto at = [&](std::int64_t i) { return values[line * 130 + static_cast<std::size_t>(i)]; };
      std::stable_sort(expected.begin(), expected.end(),
                       [&](auto a, auto b) { return descending ? at(a) > at(b) : at(a) < at(b); });
      CHECK(Places(found.begin() + static_cast<std::ptrdiff_t>(line * 130),
                   found.begin() + static_cast<std::ptrdiff_t>((line + 1) * 130)) == expected);
    }
    CHECK(arg_sort(lines.transpose(), 0, descending).transpose().contiguous().template to_vector<std::int64_t>() ==
          found);
  }
}

TEST_CASE("argsort: NaN is the greatest, zeros are equal") {
  const float nan = std::nanf("");
  const Array x = Array::from(std::vector<float>{0.0F, nan, -0.0F, 2, -1, nan}, {6}, test_device());
  CHECK(arg_sort(x, 0).to_vector<std::int64_t>() == Places{4, 0, 2, 3, 1, 5});
  CHECK(arg_sort(x, 0, true).to_vector<std::int64_t>() == Places{1, 5, 3, 0, 2, 4});
}

TEST_CASE("argsort of narrow types, of nothing, and what it refuses") {
  const Array x = Array::from(std::vector<float>{3, -1, 2}, {3}, test_device());
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8})
    CHECK(arg_sort(x.cast(dtype), 0).to_vector<std::int64_t>() == Places{1, 2, 0});
  CHECK(arg_sort(Array::zeros({3, 0}, DType::f32, test_device()), 1).shape() == Shape{3, 0});
  CHECK_THROWS_WITH_AS(arg_sort(x, 1), doctest::Contains("[argsort]"), ShapeError);
  CHECK_THROWS_WITH_AS(arg_sort(x.cast(DType::boolean), 0), doctest::Contains("[argsort]"), DTypeError);
}

}  // namespace
}  // namespace tutti
