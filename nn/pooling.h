// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/extent2d.h>
#include <tutti/nn/module.h>

namespace tutti {

struct MaxPool2dOptions {
  Extent2d stride = 0;   ///< 0: the kernel
  Extent2d padding = 0;  ///< counts as -inf and is never chosen
};

/// The largest value of each window: [n, c, h, w] -> [n, c, h', w'], h' = (h + 2 padding - kernel) / stride + 1.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent2d kernel, const MaxPool2dOptions& options = {}) {
    const Extent2d stride(options.stride.height == 0 ? kernel.height : options.stride.height,
                          options.stride.width == 0 ? kernel.width : options.stride.width);
    geometry_ = {kernel.values(), stride.values(), options.padding.values()};
  }

  Tensor forward(const Tensor& x) const { return max_pool2d(x, geometry_); }
  void visit(MemberVisitor&) override {}
  const Pool2dGeometry& geometry() const noexcept { return geometry_; }

 private:
  Pool2dGeometry geometry_;
};

}  // namespace tutti
