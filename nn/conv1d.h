// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/layers/convolution.h>

namespace tutti {

using Conv1dOptions = ConvOptions<1>;

/// Cross-correlation of sequences: [n, in, l] -> [n, out, l']; weight [out, in / groups, kernel].
class Conv1d : public Convolution<1> {
 public:
  using Convolution::Convolution;

  Tensor compute(const Tensor& x) const override { return conv1d(padded(x), weight, bias, geometry()); }
};

}  // namespace tutti
