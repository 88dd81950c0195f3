// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/testing/device_comparison.h>

#include <string_view>
#include <vector>

namespace tutti::testing {

using Tensors = std::vector<Tensor>;

/// A function of tensors of these shapes, for lists of what is compared with its gradients.
struct DifferentiableFunction {
  std::string_view name;
  std::vector<Shape> operands;
  Tensor (*f)(const Tensors&);
};

/// Positions below `below`, on the device of `beside`.
inline Tensor places(const Tensor& beside, const Shape& shape, std::int64_t below) {
  return Tensor(indices(shape, below, 31).to(beside.device()));
}

/// Numbers for its operands.
inline Arrays operands_of(const DifferentiableFunction& function, DType dtype) {
  Arrays values;
  for (const Shape& shape : function.operands)
    values.push_back(numbers(shape, dtype, Numbers::plain, 30 + static_cast<unsigned>(values.size())));
  return values;
}

/// The result, and the gradient of each operand for one upstream gradient.
inline Arrays result_and_gradients(const DifferentiableFunction& function, const Arrays& values) {
  Tensors operands;
  for (const Array& value : values) operands.emplace_back(value, true);
  const Tensor y = function.f(operands);
  const Tensor upstream(numbers(y.shape(), y.dtype(), Numbers::plain, 32).to(y.device()));
  backward(sum((y * upstream).cast(DType::f32)));
  Arrays found{y.array()};
  for (const Tensor& operand : operands) found.push_back(operand.grad().array());
  return found;
}

}  // namespace tutti::testing
