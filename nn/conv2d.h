// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/layers/convolution.h>

namespace tutti {

using Conv2dOptions = ConvOptions<2>;

/// Cross-correlation of images: [n, in, h, w] -> [n, out, h', w']; weight [out, in / groups, kernel height, kernel
/// width].
class Conv2d : public Convolution<2> {
 public:
  using Convolution::Convolution;

  Tensor compute(const Tensor& x) const override { return conv2d(padded(x), weight, bias, geometry()); }
};

}  // namespace tutti
