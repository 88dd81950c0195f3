// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/random.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/padding.h>

#include <array>

namespace tutti {

struct Conv2dOptions {
  Extent2d stride = 1;
  Padding2d padding = 0;  ///< zeros on every side; others by side, or AxisPadding::same()
  Extent2d dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels; as many as `in`: depthwise
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Cross-correlation of images: [n, in, h, w] -> [n, out, h', w'], where
/// h' = (h + padding above and below - dilation (kernel - 1) - 1) / stride + 1, and w' alike. Starts as described at
/// `initialize_layer`.
class Conv2d : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels
  /// and padding is not negative; DTypeError unless the type is floating.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel, Generator&, const Conv2dOptions& = {});

  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override;
  const Conv2dGeometry& geometry() const noexcept { return geometry_; }  ///< has only the padding that is on both sides

  Tensor weight;  ///< [out, in / groups, kernel height, kernel width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  Conv2dGeometry geometry_;
  std::array<Padding, 2> more_;  // zeros on one side only, of rows and of columns
};

}  // namespace tutti
