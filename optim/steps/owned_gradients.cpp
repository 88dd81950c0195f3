// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/owned_gradients.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/ready_gradient.h>

namespace tutti {

std::vector<OwnedGradient> owned_gradients(std::string_view operation, std::span<const Tensor> parameters) {
  std::vector<OwnedGradient> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Array values = parameters[i].has_sparse_grad() ? ready_sparse_gradient(operation, parameters[i], i).rows
                                                         : ready_gradient(operation, parameters[i], i);
    if (values.defined() && values.size() > 0) gradients.push_back({&parameters[i], values});
  }
  return gradients;
}

void change_in_place(const OwnedGradient& gradient, const std::function<void(const Array&)>& change) {
  if (!gradient.parameter->has_sparse_grad()) {
    gradient.values.count_write("a change of gradients");
    return change(gradient.values);
  }
  for (SparseGradient& part : gradient.parameter->gradient_slot().rows) {
    part.rows = part.rows.copy();
    if (part.count() > 0) change(part.rows);
  }
}

void scale_in_place(const Array& array, double factor) {
  if (is_narrow(array)) {  // the factor would be rounded, too
    const Array wide = widened(array);
    scale_in_place(wide, factor);
    return backend_for(array.device()).cast(wide, array);
  }
  const Array scale = Array::full({}, factor, array.dtype(), array.device()).broadcast_to(array.shape());
  const Array inputs[] = {array, scale};
  const auto call = elementwise::make_call(elementwise::Multiply{}, ElementwiseCall::Part::value);
  backend_for(array.device()).elementwise(call, inputs, array);
}

}  // namespace tutti
