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

/// Rows become (x - mean) / sqrt(variance + epsilon), the mean over the row; not centred: the mean counts as 0.
struct RowNorm {
  bool centred = true;
  double epsilon = 1e-5;
};

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
  enum class Kind : std::uint8_t { uniform, normal } kind = Kind::uniform;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;
  double a = 0.0;  ///< uniform: lower end; normal: mean
  double b = 1.0;  ///< uniform: upper end, excluded; normal: standard deviation
};

/// v = momentum v + (1 - dampening) (g + weight_decay p);  p -= rate (nesterov ? g + weight_decay p + momentum v : v).
/// Without momentum the momentum array is undefined and v is the plain gradient. `first`: v starts as the gradient.
struct SgdStep {
  double rate = 0.0;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  ///< the gradient is read as gradient_scale * g (clipping by norm)
  bool nesterov = false;
  bool first = false;
};

/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
struct AdamWStep {
  double rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double gradient_scale = 1.0;
  std::int64_t step = 1;  ///< counted from 1, for the bias correction
};

}  // namespace tutti
