// SPDX-License-Identifier: Apache-2.0
#pragma once

// Discrete Fourier transforms, named and defined as numpy.fft's and torch.fft's. Complex numbers are pairs of real
// tensors. Any length up to 2^26. Integers give f32; bf16 and f16 are computed in f32. Differentiable any number of
// times: the gradient of a transform is one. ShapeError for a length below 1 or above 2^26, an axis that is not there,
// and parts of different shapes.

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti {

/// real + i imaginary, of one shape, device and dtype (after promotion).
struct ComplexTensor {
  Tensor real;
  Tensor imaginary = {};  ///< undefined: zeros
};

/// Factors of transforms: backward, 1 / n of inverse ones; ortho, 1 / sqrt(n) of both; forward, 1 / n of the others.
enum class FourierNorm : std::uint8_t { backward, ortho, forward };

struct FourierAxis {
  std::optional<std::int64_t> length = {};  ///< n; what is longer is cut, what is shorter followed by zeros
  std::int64_t axis = -1;
  FourierNorm norm = FourierNorm::backward;
};

/// y_k = sum_j x_j exp(-2 pi i jk / n) along one axis; the inverse has exp(+2 pi i jk / n) / n.
ComplexTensor fft(const ComplexTensor&, const FourierAxis& = {});
ComplexTensor ifft(const ComplexTensor&, const FourierAxis& = {});
/// The transform of real numbers: the first n / 2 + 1 of fft, as the others are conjugates of these.
ComplexTensor rfft(const Tensor&, const FourierAxis& = {});
/// The inverse of rfft: n / 2 + 1 numbers -> n real ones, n = 2 (length - 1) unless it is given. Imaginary parts that
/// no real numbers have (the first, and for an even n the last) are not read.
Tensor irfft(const ComplexTensor&, const FourierAxis& = {});

struct FourierAxes {
  std::vector<std::int64_t> lengths = {};  ///< one for each axis; none: those that there are
  Axes axes = {};                          ///< none: the last as many as lengths, else all
  FourierNorm norm = FourierNorm::backward;
};

/// One after the other along several axes; {.axes = {-2, -1}} is fft2. rfftn and irfftn are rfft and irfft along the
/// last of them. ShapeError for lengths and axes that differ in number, and for an axis that is given twice; of rfftn
/// and irfftn for no axis at all.
ComplexTensor fftn(const ComplexTensor&, const FourierAxes& = {});
ComplexTensor ifftn(const ComplexTensor&, const FourierAxes& = {});
ComplexTensor rfftn(const Tensor&, const FourierAxes& = {});
Tensor irfftn(const ComplexTensor&, const FourierAxes& = {});

}  // namespace tutti
