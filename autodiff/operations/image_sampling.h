// SPDX-License-Identifier: Apache-2.0
#pragma once

// Images of another size, or read at given places. Definitions are those of torch.nn.functional. Differentiable any
// number of times; bf16 and f16 are computed in f32 and rounded once.

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <vector>

namespace tutti {

/// `linear` and `cubic` (Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), a = -0.75) work
/// along each axis in turn: PyTorch's linear, bilinear and trilinear, and its bicubic. `area`: the mean of what an
/// element covers, adaptive_avg_pool.
enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, cubic, area };

struct InterpolateOptions {
  Shape size{};                 ///< lengths of the result's axes behind the channels; or give `scale`
  std::vector<double> scale{};  ///< factors, one for all of these axes or one each: l' = floor(l * factor)
  Interpolation mode = Interpolation::nearest;
  /// The first and last elements keep their places, else their outer edges do. Of `linear` and `cubic` alone.
  bool align_corners = false;
};

/// [n, c, l...] -> [n, c, l'...] of one to three axes l. Element i is read at (i + 0.5) l / l' - 0.5, or with
/// align_corners at i (l - 1) / (l' - 1); `nearest` at floor(i l / l'), `nearest_exact` at floor((i + 0.5) l / l'),
/// computed in integers. Where factors are given, l / l' is 1 / factor; but an axis whose length stays is left as it
/// is, whatever the factor, unless the mode is `cubic`: PyTorch's modes differ in that. Floating types, else
/// DTypeError; ShapeError unless size or scale is given, of that many axes and positive, and for empty axes. There is
/// no antialiasing.
Tensor interpolate(const Tensor& x, const InterpolateOptions&);

/// Values beyond the edges: zeros, the nearest element, or the image mirrored.
enum class GridPadding : std::uint8_t { zeros, border, reflection };

struct GridSampleOptions {
  Interpolation mode = Interpolation::linear;  ///< `linear`; `nearest`, halves to even; or `cubic`, of images alone
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;  ///< -1 and 1 are the centres of the first and last elements, else their outer edges
};

/// Images [n, c, h, w] read at grid [n, h', w', 2], of (x, y), each from -1 to 1 -> [n, c, h', w']; volumes [n, c, d,
/// h, w] at grid [n, d', h', w', 3], of (x, y, z). NaN in the grid is -1. Floating types, promoted; else DTypeError.
/// ShapeError for what does not fit. Of `nearest` the grid has no gradient.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& = {});

/// Channels as pixels: [..., c r r, h, w] -> [..., c, h r, w r], and back. Of any type; ShapeError unless r divides.
Tensor pixel_shuffle(const Tensor& x, std::int64_t factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor);

}  // namespace tutti
