// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/strided_view.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor/tensor_access.h>

namespace tutti {

Array StridedView::of(const Array& array) const {
  std::int64_t offset = array.offset();
  for (std::size_t axis = 0; axis < first.size(); ++axis) offset += first[axis] * array.strides()[axis];
  Shape shape(axes.size(), 0);
  Strides strides(axes.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    shape[i] = axis.length;
    if (axis.along == kNewAxis || axis.length < 2) continue;
    strides[i] = array.strides()[static_cast<std::size_t>(axis.along)] * axis.step;
    if (axis.along_too != kNewAxis) strides[i] += array.strides()[static_cast<std::size_t>(axis.along_too)] * axis.step;
  }
  if (element_count(shape) == 0) offset = array.offset();  // nothing lies there
  return as_strided(array, shape, strides, offset);
}

Tensor take_view(std::string_view operation, const Tensor& x, const StridedView& view) {
  const Tensor inputs[] = {x};
  return record(operation, view.of(x.array()), inputs, [&] {
    return [operation, shape = x.shape(), view](const auto&, const Tensor& dy, InputGradients& gradients) {
      if (Tensor sum = gradients.take_sum(0); sum.defined()) {  // other parts of x were shown, too
        Array total = take_array(std::move(sum));
        Array part = view.of(total);
        add_to(part, dy.array(), true);
        gradients.set(0, Tensor(std::move(total)));
      } else {
        gradients.set(0, put_view(operation, dy, shape, view));
      }
    };
  });
}

Tensor put_view(std::string_view operation, const Tensor& x, const Shape& shape, const StridedView& view) {
  Array value = Array::zeros(shape, x.dtype(), x.device());
  if (x.size() > 0) view.of(value).copy_from(x.array());
  const Tensor inputs[] = {x};
  return record(operation, std::move(value), inputs, [&] {
    return [operation, view](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, take_view(operation, dy, view));
    };
  });
}

}  // namespace tutti
