// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/image_taps.h>
#include <tutti/backend/cpu/linear_algebra/packing.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tutti {
namespace {

constexpr std::int64_t kColumns =
    std::min<std::int64_t>(30, static_cast<std::int64_t>(packing::kMostStripColumns<float>));

std::int64_t packed_width(std::int64_t columns) {
  constexpr std::int64_t kLanes = kNativeLanes<float>;
  return (columns + kLanes - 1) / kLanes * kLanes;
}

/// Packs a part both ways, and compares each pair with the elements that it is of.
template <class Pack> std::int64_t others(const StripPart& part, const Pack& pack) {
  const auto elements = static_cast<std::size_t>((part.steps + 1) * part.width + kNativeLanes<float>);
  std::vector<float> alone(elements, -1);
  std::vector<std::int32_t> pairs(elements, -1);
  pack(alone.data());
  pack(pairs.data());
  std::int64_t found = 0;
  for (std::int64_t step = 0; step < part.steps + part.steps % 2; ++step)
    for (std::int64_t column = 0; column < part.columns; ++column) {
      const auto pair = static_cast<std::uint32_t>(pairs[static_cast<std::size_t>(step / 2 * part.width + column)]);
      const auto bits = static_cast<std::uint16_t>(step % 2 == 0 ? pair : pair >> 16U);
      const float expected = step < part.steps ? alone[static_cast<std::size_t>(step * part.width + column)] : 0.0F;
      found += static_cast<std::int64_t>(bits != BFloat16(expected).bits);
    }
  return found;
}

TEST_CASE("image taps: pairs of bf16 are the elements that are packed one by one") {
  std::mt19937 engine(4);
  for (const std::int64_t width : {1, 2, 4, 5, 7, 8, 16, 33})
    for (const std::int64_t stride : {1, 2})
      for (const std::int64_t kernel : {1, 2, 3}) {
        const Conv2dGeometry geometry{.stride = {stride, stride}, .padding = {1, 1}, .dilation = {1, 2}};
        const std::int64_t out_height = (3 + 2 - kernel) / stride + 1;
        const std::int64_t out_width = (width + 2 - 2 * (kernel - 1) - 1) / stride + 1;
        if (out_width < 1) continue;
        constexpr std::int64_t kImages = 3;
        constexpr std::int64_t kChannels = 7;
        const ConvolutionSizes size(geometry, {kImages, kChannels, 3, width}, {1, kChannels, kernel, kernel},
                                    {kImages, 1, out_height, out_width});
        std::vector<BFloat16> padded(
            static_cast<std::size_t>(kImages * size.padded_size() + ImageTaps<BFloat16>::kSlack));
        for (BFloat16& value : padded) value = BFloat16(static_cast<float>(engine()) * 0x1p-32F - 0.5F);
        const ImageTaps<BFloat16> taps(size, padded.data(), size.padded_size());
        const std::int64_t positions = kImages * out_height * out_width;
        CAPTURE(width);
        CAPTURE(stride);
        CAPTURE(kernel);
        for (const std::int64_t first : {0, 2}) {
          const std::int64_t steps = size.taps() - first;
          const std::int64_t columns = std::min(positions, kColumns);
          const StripPart part{first, steps, positions - columns, columns, packed_width(columns)};
          CHECK(others(part, [&](auto* to) { taps.pack(part, to); }) == 0);
          const std::int64_t seen = std::min(size.taps(), kColumns);
          if (positions <= first) continue;
          const std::int64_t most = std::min(positions - first, StripPart::kMostSteps);
          const StripPart turned{first, most, size.taps() - seen, seen, packed_width(seen)};
          CHECK(others(turned, [&](auto* to) { taps.pack_turned(turned, to); }) == 0);
        }
      }
}

}  // namespace
}  // namespace tutti
