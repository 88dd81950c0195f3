// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>

namespace tutti {

/// Joins all axes from `first_axis` on: [n, c, h, w] -> [n, c*h*w].
class Flatten : public Layer {
 public:
  explicit Flatten(std::int64_t first_axis = 1) : first_axis_(first_axis) {}

  Tensor compute(const Tensor& x) const override { return flatten(x, first_axis_); }
  void visit(MemberVisitor&) override {}

 private:
  std::int64_t first_axis_;
};

}  // namespace tutti
