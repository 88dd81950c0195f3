// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/numbers/checked_size.h>

#include <tutti/backend/operations/window_count.h>

#include <doctest/doctest.h>

#include <limits>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST_CASE("CheckedSize: numbers that fit, and what overflows on the way, which nothing brings back") {
  static_assert((CheckedSize(2) * 3 + 4 - 1).get_or(-1) == 9);
  CHECK((CheckedSize(kMost) + 0).get("here", "it") == kMost);
  CHECK((CheckedSize(kLeast) - 0).get("here", "it") == kLeast);
  CHECK((CheckedSize(kMost) + 1).get_or(-7) == -7);
  CHECK((CheckedSize(kMost) + 1 - 1).get_or(-7) == -7);
  CHECK((CheckedSize(kLeast) - 1 + 1).get_or(-7) == -7);
  CHECK((CheckedSize(kHuge) * 4 * 0).get_or(-7) == -7);
  CHECK((0 - CheckedSize(kLeast)).get_or(-7) == -7);
  CHECK((CheckedSize(kLeast) * -1).get_or(-7) == -7);
  CHECK_THROWS_WITH_AS((CheckedSize(kMost) + 1).get("pad", "widths {} and {}", 1, kMost),
                       "[pad] widths 1 and 9223372036854775807: the size overflows 64 bits", ShapeError);
}

TEST_CASE("window_count: as the formula has it, 0 where the first does not fit, and errors for sizes that overflow") {
  CHECK(window_count("conv", {.length = 7, .kernel = 3, .stride = 2, .padding = 1}) == 4);
  CHECK(window_count("conv", {.length = 7, .kernel = 3, .stride = 2, .padding = 1, .dilation = 4}) == 1);
  CHECK(window_count("conv", {.length = 7, .kernel = 3, .stride = kMost, .padding = 0}) == 1);
  CHECK(window_count("conv", {.length = 2, .kernel = 3, .stride = 1, .padding = 0}) == 0);
  CHECK(window_count("conv", {.length = 1, .kernel = kMost, .stride = 1, .padding = kHuge - 1}) == 1);
  CHECK_THROWS_WITH_AS(window_count("conv", {.length = 2, .kernel = 1, .stride = 1, .padding = kHuge}),
                       "[conv] an axis of 2 with padding 4611686018427387904: the size overflows 64 bits", ShapeError);
  CHECK_THROWS_WITH_AS(window_count("conv", {.length = 2, .kernel = 3, .stride = 1, .padding = 0, .dilation = kHuge}),
                       "[conv] a kernel of 3 with dilation 4611686018427387904: the size overflows 64 bits",
                       ShapeError);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
