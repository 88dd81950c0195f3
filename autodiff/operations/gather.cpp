// SPDX-License-Identifier: Apache-2.0
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

}  // namespace tutti
