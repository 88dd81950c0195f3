// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace tutti {
namespace {

TEST_CASE_TEMPLATE("wide lanes: all elements of 16 bits become the f32 that they hold, in every bit", S, BFloat16,
                   Float16) {
  std::vector<S> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> found(all.size());
  for (const std::size_t first : {std::size_t{0}, std::size_t{3}}) {  // in vectors and one by one
    widen(all.data() + first, found.data() + first, static_cast<std::int64_t>(all.size() - first));
    std::size_t wrong = 0;
    for (std::size_t i = first; i < all.size(); ++i) {
      const float expected = all[i];
      wrong += std::memcmp(&found[i], &expected, sizeof expected) == 0 ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE_TEMPLATE("wide lanes: f32 of all kinds are rounded as one by one, in every bit", S, BFloat16, Float16) {
  std::mt19937 engine(11);
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)  // each exponent, NaN too, with ties and what is beside them
    for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0x1000U, 0x0FFFU, 0x1001U, 0x3000U,
                                      static_cast<std::uint32_t>(engine() & 0xFFFFU)})
      values.push_back(std::bit_cast<float>(upper << 16U | lower));
  std::vector<S> found(values.size());
  narrow(values.data(), found.data(), static_cast<std::int64_t>(values.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += found[i].bits == S(values[i]).bits ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("wide lanes: what lies behind the first elements is not read, and counts as zeros") {
  const std::vector<BFloat16> elements(3, BFloat16(2.0F));
  for (std::int64_t count = 0; count <= 3; ++count) {
    const Native<float> lanes = load_wide_first(elements.data(), count);
    for (std::int64_t i = 0; i < kNativeLanes<float>; ++i) CHECK(lanes[i] == (i < count ? 2.0F : 0.0F));
  }
}

}  // namespace
}  // namespace tutti
