// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

enum class Reduction : std::uint8_t { sum, sum_of_squares, max, min };  ///< max and min propagate NaN
enum class ArgReduction : std::uint8_t { arg_max, arg_min };            ///< first of equals; NaN wins
enum class SoftmaxKind : std::uint8_t { softmax, log_softmax };

/// What a linear operation ends with; formulas in backend/elementwise/activations.h.
enum class LinearActivation : std::uint8_t { none, relu, gelu };

/// Input [batch, in_channels, height, width], weight [out_channels, in_channels, kernel...]. Order: height, width.
struct Conv2dGeometry {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
};

/// Windows of `kernel` every `stride` elements; padding counts as -inf and is never chosen. Order: height, width.
struct Pool2dGeometry {
  std::array<std::int64_t, 2> kernel{2, 2};
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 2> padding{0, 0};
};

/// Element i of the output is a function of (seed, stream, offset + i): see backend/random.h.
struct RandomCall {
  enum class Kind : std::uint8_t { uniform, normal, truncated_normal } kind = Kind::uniform;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;
  double a = 0.0;           ///< uniform: lower end; normal: mean
  double b = 1.0;           ///< uniform: upper end, excluded; normal: standard deviation
  double low_level = 0.0;   ///< truncated normal: the share of the whole normal distribution below what is kept
  double high_level = 1.0;  ///< truncated normal: that up to its end
};

}  // namespace tutti
