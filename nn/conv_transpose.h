// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/volume_operations.h>
#include <tutti/nn/layers/convolution.h>

namespace tutti {

using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;
using ConvTranspose3dOptions = ConvTransposeOptions<3>;

/// The gradient of Conv1d with respect to its input, as a layer of sequences: [n, in, l] -> [n, out, l']; weight [in,
/// out / groups, kernel].
class ConvTranspose1d : public TransposedConvolution<1> {
 public:
  using TransposedConvolution::TransposedConvolution;

  Tensor compute(const Tensor& x) const override { return conv_transpose1d(x, weight, bias, geometry()); }
};

/// The gradient of Conv2d with respect to its input, as a layer of images: [n, in, h, w] -> [n, out, h', w']; weight
/// [in, out / groups, kernel height, kernel width].
class ConvTranspose2d : public TransposedConvolution<2> {
 public:
  using TransposedConvolution::TransposedConvolution;

  Tensor compute(const Tensor& x) const override { return conv_transpose2d(x, weight, bias, geometry()); }
};

/// The gradient of Conv3d with respect to its input, as a layer of volumes: [n, in, d, h, w] -> [n, out, d', h', w'];
/// weight [in, out / groups, kernel depth, height, width].
class ConvTranspose3d : public TransposedConvolution<3> {
 public:
  using TransposedConvolution::TransposedConvolution;

  Tensor compute(const Tensor& x) const override { return conv_transpose3d(x, weight, bias, geometry()); }
};

}  // namespace tutti
