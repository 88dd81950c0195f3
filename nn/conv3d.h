// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/volume_operations.h>
#include <tutti/nn/layers/convolution.h>

namespace tutti {

using Conv3dOptions = ConvOptions<3>;

/// Cross-correlation of volumes: [n, in, d, h, w] -> [n, out, d', h', w']; weight [out, in / groups, kernel depth,
/// height, width].
class Conv3d : public Convolution<3> {
 public:
  using Convolution::Convolution;

  Tensor compute(const Tensor& x) const override { return conv3d(padded(x), weight, bias, geometry()); }
};

}  // namespace tutti
