// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/padding.h>

namespace tutti {

struct Conv1dOptions {
  std::int64_t stride = 1;
  AxisPadding padding = 0;  ///< zeros on both sides, or {before, after}, or AxisPadding::same()
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  ///< must divide both numbers of channels; as many as `in`: depthwise
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Cross-correlation of sequences: [n, in, l] -> [n, out, l'], where
/// l' = (l + padding before and after - dilation (kernel - 1) - 1) / stride + 1. Starts as described at
/// `initialize_layer`.
class Conv1d : public Layer {
 public:
  /// Throws ShapeError unless channels, kernel, stride, dilation and groups are positive, groups divide the channels
  /// and padding is not negative; DTypeError unless the type is floating.
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, Generator&,
         const Conv1dOptions& = {});

  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override;
  const Conv1dGeometry& geometry() const noexcept { return geometry_; }  ///< has only the padding that is on both sides

  Tensor weight;  ///< [out, in / groups, kernel]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  Conv1dGeometry geometry_;
  Padding more_;  // zeros on one side only
};

}  // namespace tutti
