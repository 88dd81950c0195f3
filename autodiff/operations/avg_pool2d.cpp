// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>

namespace tutti {

namespace {

// Linear: the gradient of the gradient is the pooling itself.
Tensor spread_over_windows(const AvgPool2dGeometry& geometry, const Tensor& dy, const Shape& input) {
  const Tensor inputs[] = {dy};
  return record("avg_pool2d_gradient", avg_pool2d_gradient(geometry, dy.array(), input), inputs, [&] {
    return [geometry](const auto&, const Tensor& ddx, InputGradients& gradients) {
      gradients.set(0, avg_pool2d(ddx, geometry));
    };
  });
}

}  // namespace

Tensor avg_pool2d(const Tensor& input, const AvgPool2dGeometry& geometry) {
  const OperationScope scope("avg_pool2d", input);
  const Tensor inputs[] = {input};
  return record("avg_pool2d", avg_pool2d(geometry, input.array()), inputs, [&] {
    return [geometry, shape = input.shape()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, spread_over_windows(geometry, dy, shape));
    };
  });
}

}  // namespace tutti
