// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

namespace tutti {

namespace {

// The maxima's gradient goes back to where they stood; its own gradient is read from there.
Tensor scatter_to_images(const Pool2dGeometry& geometry, const Tensor& dy, const Tensor& index, const Shape& input) {
  const Tensor inputs[] = {dy};
  return record("max_pool2d_gradient", max_pool2d_gradient(geometry, dy.array(), index.array(), input), inputs, [&] {
    return [index](const auto&, const Tensor& ddx, InputGradients& gradients) {
      const Shape pooled = index.shape();
      // Lengths are spelled out, because -1 has no meaning in an empty batch.
      const Shape image{pooled[0], pooled[1], ddx.length(2) * ddx.length(3)};
      const Shape window{pooled[0], pooled[1], pooled[2] * pooled[3]};
      const Tensor values = gather_places(reshape(ddx, image), 2, reshape(index, window));
      gradients.set(0, reshape(values, pooled));
    };
  });
}

}  // namespace

Tensor max_pool2d(const Tensor& input, const Pool2dGeometry& geometry) {
  const OperationScope scope("max_pool2d", input);
  auto [maxima, index] = max_pool2d(geometry, input.array());
  const Tensor inputs[] = {input};
  return record("max_pool2d", std::move(maxima), inputs, [&, index = std::move(index)] {
    return [geometry, index = Tensor(index), shape = input.shape()](const auto&, const Tensor& dy,
                                                                    InputGradients& gradients) {
      gradients.set(0, scatter_to_images(geometry, dy, index, shape));
    };
  });
}

}  // namespace tutti
