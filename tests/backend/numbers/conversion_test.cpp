// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/numbers/conversion.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

template <class To, class From> void check_integers_from() {
  constexpr From kInfinity = std::numeric_limits<From>::infinity();
  constexpr To kLowest = std::numeric_limits<To>::min();
  constexpr To kLargest = std::numeric_limits<To>::max();
  const From beyond = -static_cast<From>(kLowest);
  CHECK(convert<To>(From(2.75)) == 2);
  CHECK(convert<To>(From(-2.75)) == -2);
  CHECK(convert<To>(From(-0.0)) == 0);
  CHECK(convert<To>(std::numeric_limits<From>::quiet_NaN()) == 0);
  CHECK(convert<To>(kInfinity) == kLargest);
  CHECK(convert<To>(-kInfinity) == kLowest);
  CHECK(convert<To>(beyond) == kLargest);
  CHECK(convert<To>(-beyond) == kLowest);
  CHECK(convert<To>(std::nextafter(-beyond, -kInfinity)) == kLowest);
  const From below = std::nextafter(beyond, From(0));
  CHECK(convert<To>(below) == static_cast<To>(below));
}

TEST_CASE("floating point numbers become the nearest integers towards 0 that there are") {
  check_integers_from<std::int32_t, float>();
  check_integers_from<std::int32_t, double>();
  check_integers_from<std::int64_t, float>();
  check_integers_from<std::int64_t, double>();
}

TEST_CASE("all but 0 is true, and integers wrap") {
  CHECK(convert<bool>(0.25F));
  CHECK(convert<bool>(std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(convert<bool>(-0.0));
  CHECK(convert<bool>(std::int64_t{1} << 40U));
  CHECK(convert<std::int32_t>((std::int64_t{1} << 40U) + 3) == 3);
  CHECK(convert<float>(true) == 1.0F);
  CHECK(convert<double>(std::int64_t{-3}) == -3.0);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
