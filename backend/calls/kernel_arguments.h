// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory/thread_cache.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tutti {

enum class Reduction : std::uint8_t { sum, sum_of_squares, max, min, prod };  ///< max and min propagate NaN
enum class ArgReduction : std::uint8_t { arg_max, arg_min };                  ///< NaN wins
/// The effect of an update on the element that it points to: it is added to it, takes its place (the last of several
/// does), multiplies it, or stays if it is larger or smaller. max and min propagate NaN.
enum class Scatter : std::uint8_t { add, set, prod, max, min };
enum class SoftmaxKind : std::uint8_t { softmax, log_softmax };

/// The last step of a linear operation; formulas in backend/elementwise/activations.h.
enum class LinearActivation : std::uint8_t { none, relu, gelu };

/// Kinds of recurrent networks, by what a step computes; formulas in backend/formulas/recurrent_formulas.h.
enum class RecurrentGates : std::uint8_t { tanh, relu, lstm, gru };

/// Steps of a recurrent network for sequences that lie packed: rows of step 0 first, then those of step 1, ... Step t
/// has the first counts[t] of `batch` sequences, never more than the step before it.
struct RecurrentSteps {
  RecurrentGates gates = RecurrentGates::tanh;
  CachedVector<std::int64_t> counts = {};
  bool reversed = false;  ///< taken from the last step to the first; a sequence then begins at its last
  std::int64_t rows() const;
  /// Calls `f(first row, count)` for each step that has sequences, in the order in which they are taken; `backwards`:
  /// from the last that was taken.
  template <class F> void for_each(bool backwards, const F& f) const {
    const bool from_end = reversed != backwards;
    std::int64_t row = from_end ? rows() : 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::int64_t count = counts[from_end ? counts.size() - 1 - i : i];
      if (from_end) row -= count;
      if (count > 0) f(row, count);
      if (!from_end) row += count;
    }
  }
  bool operator==(const RecurrentSteps&) const = default;
};

/// Decompositions of a matrix [rows, columns], whose parts stand one below the other in one matrix, so that a graph
/// sees one result. k = min(rows, columns); of symmetric matrices the lower triangle is read.
enum class Factorization : std::uint8_t {
  cholesky,         ///< L [n, n], zeros above the diagonal
  qr,               ///< Q [m, n], then R [n, n]; m >= n
  svd,              ///< U [m, k], V [n, k], the singular values [1, k], from the largest on
  singular_values,  ///< [1, k]
  eigh,             ///< the eigenvectors as columns [n, n], the eigenvalues [1, n], from the smallest on
  eigenvalues,      ///< [1, n]
};

/// The triangle of a matrix that is read; `unit`: its diagonal counts as ones.
struct Triangle {
  bool upper = false;
  bool unit = false;
  bool operator==(const Triangle&) const = default;
};

/// T X = B. `operation`, a literal, is named by the error of a diagonal with a 0.
struct TriangularSystem {
  Triangle triangle;
  std::string_view operation;
  bool operator==(const TriangularSystem&) const = default;
};

/// Kernels that do what others would, one after the other: those that a kind of device may lack.
enum class FusedKernel : std::uint8_t { attention, recurrent_steps, normalize_channels };

/// How attention weighs keys: softmax(scale query key^T + mask), where `causal` of keys 0 .. i alone for query i.
struct AttentionScores {
  double scale = 1;
  bool causal = false;
  std::int64_t block = 1024;  ///< queries and keys whose scores exist at a time, where no kernel decides it
  bool operator==(const AttentionScores&) const = default;
};

/// Rows become (x - mean) / sqrt(variance + epsilon), the mean over the row; not centred: the mean counts as 0.
struct RowNorm {
  bool centred = true;
  double epsilon = 1e-5;
  bool operator==(const RowNorm&) const = default;
};

/// A number for each axis that windows run along, in the order of the shape: of one axis the number itself.
template <std::size_t axes> using AxisNumbers =
    std::conditional_t<axes == 1, std::int64_t, std::array<std::int64_t, axes>>;
/// `number` on each axis. A variable, not a function: GCC 12 fails inside itself at a default of a member that a
/// function template makes, if designated initialisers are the first to need it.
template <std::size_t axes, std::int64_t number> inline constexpr AxisNumbers<axes> kOnEachAxis = [] {
  if constexpr (axes == 1) {
    return number;
  } else {
    AxisNumbers<axes> numbers{};
    numbers.fill(number);
    return numbers;
  }
}();

/// Input [batch, in_channels, lengths...], weight [out_channels, in_channels / groups, kernel...]. Channels are cut
/// into `groups` runs, of which each convolves apart: the i-th of the output sees the i-th of the input alone. With as
/// many groups as input channels the convolution is depthwise.
template <std::size_t axes> struct ConvGeometry {
  AxisNumbers<axes> stride = kOnEachAxis<axes, 1>;
  AxisNumbers<axes> padding = kOnEachAxis<axes, 0>;
  AxisNumbers<axes> dilation = kOnEachAxis<axes, 1>;
  std::int64_t groups = 1;
  bool operator==(const ConvGeometry&) const = default;
};
using Conv1dGeometry = ConvGeometry<1>;  ///< geometry of sequences [batch, channels, length]
using Conv2dGeometry = ConvGeometry<2>;  ///< geometry of images: height, width
using Conv3dGeometry = ConvGeometry<3>;  ///< geometry of volumes: depth, height, width

/// Windows of `kernel` every `stride` elements; padding counts as -inf and is never chosen. A stride that is left out
/// stands for the kernel; kernels are given it worked out.
template <std::size_t axes> struct PoolGeometry {
  AxisNumbers<axes> kernel = kOnEachAxis<axes, 2>;
  AxisNumbers<axes> stride = kOnEachAxis<axes, 0>;
  AxisNumbers<axes> padding = kOnEachAxis<axes, 0>;
  bool operator==(const PoolGeometry&) const = default;
};
using Pool1dGeometry = PoolGeometry<1>;
using Pool2dGeometry = PoolGeometry<2>;
using Pool3dGeometry = PoolGeometry<3>;

/// The same windows; padding counts as 0, and where `count_include_pad` is set as elements, too.
template <std::size_t axes> struct AvgPoolGeometry {
  AxisNumbers<axes> kernel = kOnEachAxis<axes, 2>;
  AxisNumbers<axes> stride = kOnEachAxis<axes, 0>;
  AxisNumbers<axes> padding = kOnEachAxis<axes, 0>;
  bool count_include_pad = true;

  constexpr PoolGeometry<axes> windows() const { return {kernel, stride, padding}; }
  bool operator==(const AvgPoolGeometry&) const = default;
};
using AvgPool1dGeometry = AvgPoolGeometry<1>;
using AvgPool2dGeometry = AvgPoolGeometry<2>;
using AvgPool3dGeometry = AvgPoolGeometry<3>;

/// Windows with the stride worked out: left out, all 0, it is the kernel.
template <class Windows> constexpr Windows with_stride(Windows windows) {
  if (windows.stride == decltype(windows.stride){}) windows.stride = windows.kernel;
  return windows;
}

/// A discrete Fourier transform of rows of `length` numbers, without a factor: each is multiplied by the roots of unity
/// of exp(-2 pi i / length), of an inverse by their conjugates. Complex numbers are pairs (real, imaginary) along a
/// last axis of 2. Spectra of real numbers have their first length / 2 + 1 numbers, as the others are conjugates of
/// these.
struct FourierTransform {
  enum class Kind : std::uint8_t {
    complex,          ///< [rows, length, 2] -> the same
    real_to_complex,  ///< [rows, length] -> [rows, length / 2 + 1, 2]; never inverse
    complex_to_real,  ///< the other way; always inverse. Imaginary parts that no real numbers have count as 0
  };
  Kind kind = Kind::complex;
  bool inverse = false;
  std::int64_t length = 1;
  bool operator==(const FourierTransform&) const = default;
};

/// The place of a draw, in device memory: read by the kernels of a captured step, whose arguments are always the same.
struct DrawPlace {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;
};

/// Element i of the output is a function of (seed, stream, offset + i): see backend/random.h.
struct RandomCall {
  enum class Kind : std::uint8_t { uniform, normal, truncated_normal } kind = Kind::uniform;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint64_t offset = 0;
  const DrawPlace* place = nullptr;  ///< place in device memory, if set: its seed and stream count, its offset is added
  double a = 0.0;                    ///< uniform: lower end; normal: mean
  double b = 1.0;                    ///< uniform: upper end, excluded; normal: standard deviation
  double low_level = 0.0;   ///< truncated normal: the share of the whole normal distribution below what is kept
  double high_level = 1.0;  ///< truncated normal: that up to its end
};

/// An element is kept where the uniform f32 number of the draw is below `keep`, and then multiplied by `factor`.
struct DropoutCall {
  RandomCall draw;
  float keep = 1.0F;
  double factor = 1.0;
};

}  // namespace tutti
