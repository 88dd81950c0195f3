// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/line_gather.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

namespace tutti {

// Each is the other's gradient.

Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index) {
  const OperationScope scope("gather", input, index);
  const Tensor inputs[] = {input};
  return record("gather", gather(input.array(), axis, index.array()), inputs, [&] {
    return [shape = input.shape(), axis, saved = save_constant(index)](const auto& restore, const Tensor& dy,
                                                                       InputGradients& gradients) {
      const Tensor index = restore(saved);
      if (const Array destination = gradients.destination(0); destination.defined() && destination.is_contiguous())
        gradients.set(0, Tensor(scatter_add(shape, dy.array(), axis, index.array(), destination)));
      else
        gradients.set(0, scatter_add(shape, dy, axis, index));
    };
  });
}

Tensor scatter_add(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& index) {
  const OperationScope scope("scatter_add", updates, index);
  const Tensor inputs[] = {updates};
  return record("scatter_add", scatter_add(shape, updates.array(), axis, index.array()), inputs, [&] {
    return [axis, saved = save_constant(index)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, gather(dy, axis, restore(saved)));
    };
  });
}

Tensor gather_lines(const Tensor& x, std::size_t axis, const Tensor& places) {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  Shape shape;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const std::int64_t length = x.shape()[i];
    if (i == axis)
      for (const std::int64_t count : places.shape()) shape.push_back(count);
    else
      (i < axis ? outer : inner) *= length, shape.push_back(length);
  }
  const Tensor lines = reshape(x, {outer, x.shape()[axis], inner});
  const Tensor index = broadcast_to(reshape(places, {places.size(), 1}), {outer, places.size(), inner});
  return reshape(gather(lines, 1, index), shape);
}

}  // namespace tutti
