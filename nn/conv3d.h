// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/volume_operations.h>
#include <tutti/backend/random.h>
#include <tutti/nn/extent3d.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/padding.h>

#include <array>

namespace tutti {

struct Conv3dOptions {
  Extent3d stride = 1;
  Padding3d padding = 0;  ///< zeros on every side; others by side, or AxisPadding::same()
  Extent3d dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels; as many as `in`: depthwise
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Cross-correlation of volumes: [n, in, d, h, w] -> [n, out, d', h', w'], where
/// d' = (d + padding before and after - dilation (kernel - 1) - 1) / stride + 1, and h', w' alike. Starts as described
/// at `initialize_layer`.
class Conv3d : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels
  /// and padding is not negative; DTypeError unless the type is floating.
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, Extent3d kernel, Generator&, const Conv3dOptions& = {});

  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override;
  const Conv3dGeometry& geometry() const noexcept { return geometry_; }  ///< has only the padding that is on both sides

  Tensor weight;  ///< [out, in / groups, kernel depth, height, width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  Conv3dGeometry geometry_;
  std::array<Padding, 3> more_;  // zeros on one side only, of depth, rows and columns
};

}  // namespace tutti
