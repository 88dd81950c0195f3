// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/convolution_plan.h>

namespace tutti {

/// Kernels of convolutions by matrix products: of what taps see, or of tiles at Winograd's points. Called from a CPU
/// stream; all arrays are contiguous, and the last argument is written. S: f32, f64, bf16 or f16.
template <class S> struct ProductConvolution {
  static void forward(const ConvolutionPlan&, const S* input, const S* weight, S* output);
  static void input_gradient(const ConvolutionPlan&, const S* gradient, const S* weight, S* to);
  static void weight_gradient(const ConvolutionPlan&, const S* gradient, const S* input, S* to);
};

/// The same tap by tap, where groups have few channels (`ConvolutionPlan::is_direct`).
template <class S> struct TapConvolution {
  static void forward(const ConvolutionPlan&, const S* input, const S* weight, S* output);
  static void input_gradient(const ConvolutionPlan&, const S* gradient, const S* weight, S* to);
  static void weight_gradient(const ConvolutionPlan&, const S* gradient, const S* input, S* to);
};

}  // namespace tutti
