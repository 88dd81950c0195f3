// SPDX-License-Identifier: Apache-2.0
#pragma once

// Convolutions along any number of axes, of which Conv1d, Conv2d, Conv3d and their transposed forms are made.

#include <tutti/autodiff/operations/image_operations.h>
#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/layers/extent.h>
#include <tutti/nn/layers/padding.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

template <std::size_t axes> struct ConvOptions {
  Extent<axes> stride = 1;
  AxesPadding<axes> padding = 0;  ///< zeros on every side; others by side, or AxisPadding::same()
  Extent<axes> dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels; as many as `in`: depthwise
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Weight, bias and geometry of the layers of a cross-correlation: [n, in, lengths...] -> [n, out, lengths'...], where
/// l' = (l + padding before and after - dilation (kernel - 1) - 1) / stride + 1. Starts as described at
/// `initialize_layer`.
template <std::size_t axes> class Convolution : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels
  /// and padding is not negative; DTypeError unless the type is floating.
  Convolution(std::int64_t in_channels, std::int64_t out_channels, Extent<axes> kernel, Generator&,
              const ConvOptions<axes>& = {});

  void visit(MemberVisitor&) override;
  /// Has only the padding that is on both sides.
  const ConvGeometry<axes>& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [out, in / groups, kernel...]
  Tensor bias;    ///< [out]; undefined without bias

 protected:
  Tensor padded(const Tensor& x) const;  ///< x with the zeros that are on one side only

 private:
  ConvGeometry<axes> geometry_;
  std::array<Padding, axes> more_;  // zeros on one side only
};

template <std::size_t axes> struct ConvTransposeOptions {
  Extent<axes> stride = 1;
  Extent<axes> padding = 0;         ///< taken off the result, on both sides
  Extent<axes> output_padding = 0;  ///< more at the end of the result: less than stride or dilation
  Extent<axes> dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Weight, bias and geometry of the layers of a convolution's gradient with respect to its input: [n, in, lengths...]
/// -> [n, out, lengths'...], l' = (l - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. Starts as
/// described at `initialize_layer`, where the fan is the weight's: out / groups times the kernel, as in PyTorch.
template <std::size_t axes> class TransposedConvolution : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels,
  /// and both paddings fit; DTypeError unless the type is floating.
  TransposedConvolution(std::int64_t in_channels, std::int64_t out_channels, Extent<axes> kernel, Generator&,
                        const ConvTransposeOptions<axes>& = {});

  void visit(MemberVisitor&) override;
  const ConvTransposeGeometry<axes>& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [in, out / groups, kernel...]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  ConvTransposeGeometry<axes> geometry_;
};

extern template class Convolution<1>;
extern template class Convolution<2>;
extern template class Convolution<3>;
extern template class TransposedConvolution<1>;
extern template class TransposedConvolution<2>;
extern template class TransposedConvolution<3>;

}  // namespace tutti
