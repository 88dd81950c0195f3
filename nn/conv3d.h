// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/convolution.h>

namespace tutti {

using Conv3dOptions = ConvOptions<3>;

/// Cross-correlation of volumes: [n, in, d, h, w] -> [n, out, d', h', w']; weight [out, in / groups, kernel depth,
/// height, width].
class Conv3d : public Convolution<3> {
 public:
  using Convolution::Convolution;
};

}  // namespace tutti
