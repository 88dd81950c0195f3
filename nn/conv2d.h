// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/random.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/module.h>

namespace tutti {

struct Conv2dOptions {
  Extent2d stride = 1;
  Extent2d padding = 0;  ///< zeros on every side
  Extent2d dilation = 1;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// Cross-correlation of images: [n, in, h, w] -> [n, out, h', w'], h' = (h + 2 padding - dilation (kernel - 1) - 1) /
/// stride + 1. Starts as described at `initialize_layer`.
class Conv2d : public Module {
 public:
  /// Throws ShapeError unless channels, kernel, stride and dilation are positive and padding is not negative;
  /// DTypeError unless the type is floating.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2d kernel, Generator&, const Conv2dOptions& = {});

  Tensor forward(const Tensor& x) const;
  void visit(MemberVisitor&) override;
  const Conv2dGeometry& geometry() const noexcept { return geometry_; }

  Tensor weight;  ///< [out, in, kernel height, kernel width]
  Tensor bias;    ///< [out]; undefined without bias

 private:
  Conv2dGeometry geometry_;
};

}  // namespace tutti
