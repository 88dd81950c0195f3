// SPDX-License-Identifier: Apache-2.0
#pragma once

// How an elementwise operation on tensors is recorded: its struct's value, and its struct's gradient when backward
// runs. For the files that define the named functions, and for structs of programs (autodiff/custom_elementwise.h).

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/elementwise/custom_formulas.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// The gradient of a step.
inline Tensor zero_gradient(const Shape& shape, const Tensor& dy) {
  return Tensor(Array::zeros(shape, dy.dtype(), dy.device()));
}

/// A formula of a program's struct where its device has no kernel of it: as operations on tensors.
template <class Part, class Operation, std::size_t... I>
Array composed(const Operation& operation, std::span<const Array> inputs, std::index_sequence<I...>) {
  Shape shape = inputs[0].shape();
  for (const Array& input : inputs.subspan(1)) shape = broadcast_shapes(Operation::name, shape, input.shape());
  const NoGrad off;
  const Tensor result = Part::apply(operation, Tensor(inputs[I])...);
  const DType dtype = elementwise::result_dtype<Operation, Part>(inputs[0].dtype());
  if (result.is_weak_scalar()) return Array::full(shape, weak_value(result), dtype, inputs[0].device());
  const Array array = cast(result, dtype).array().broadcast_to(shape).contiguous();
  const bool shown = ((array.storage() == inputs[I].storage()) || ...);
  return shown ? array.copy() : array;
}

/// A formula of an operation, on arrays of one dtype.
template <class Part, class Operation, class... Inputs>
Array apply_formula(const Operation& operation, const Inputs&... given) {
  if constexpr (elementwise::is_listed<Operation> && std::is_same_v<Part, elementwise::Value>) {
    return apply(operation, given...);
  } else if constexpr (elementwise::is_listed<Operation>) {
    const Array inputs[] = {given...};
    return apply_gradient(operation, Part::part, inputs);
  } else {
    const Array inputs[] = {given...};
    const CustomKernel kernel = elementwise::custom_kernel<Part>(operation);
    const Device device = inputs[0].device();
    if (!backend_for(device).runs(kernel, device))
      return composed<Part>(operation, inputs, std::index_sequence_for<Inputs...>());
    return custom_elementwise(kernel, inputs, elementwise::result_dtype<Operation, Part>(inputs[0].dtype()));
  }
}

template <ElementwiseCall::Part part> using Side = std::integral_constant<ElementwiseCall::Part, part>;

template <class Operation> bool composes_gradient() {
  return Operation::needs == elementwise::Needs::nothing || elementwise::has_composed_gradient<Operation> ||
         grad_enabled();
}

// One unary gradient, from what the operation saved. Recorded gradients are composed of differentiable operations: the
// struct's own formula with X = Tensor. Others are one fused kernel.
template <class Operation, class... Saved>
Tensor gradient(const Operation& operation, const Tensor& dy, const Saved&... saved) {
  if (composes_gradient<Operation>()) return operation.gradient(saved..., dy);
  return Tensor(apply_formula<elementwise::Gradient>(operation, saved.array()..., dy.array()));
}

template <class Operation> Tensor record_unary(const Operation& operation, const Tensor& input) {
  const OperationScope scope(Operation::name, input);
  const Tensor x = promote_into(Operation::domain, Operation::name, input);
  const Tensor inputs[] = {x};
  Array value = apply_formula<elementwise::Value>(operation, x.array());
  if constexpr (Operation::needs == elementwise::Needs::no_gradient) {
    return Tensor(std::move(value));
  } else if constexpr (Operation::needs == elementwise::Needs::zero) {
    return record(Operation::name, std::move(value), inputs, [] {
      return [](const auto&, const Tensor& dy, InputGradients& gradients) {
        gradients.set(0, zero_gradient(dy.shape(), dy));
      };
    });
  } else {
    const Array y = Operation::needs == elementwise::Needs::output ? value : Array();
    return record(Operation::name, std::move(value), inputs, [&] {
      SavedTensor saved;
      if constexpr (Operation::needs == elementwise::Needs::inputs) saved = save(x, 0);
      if constexpr (Operation::needs == elementwise::Needs::output) saved = {y, SavedTensor::kOutput};
      return [operation, saved](const auto& restore, const Tensor& dy, InputGradients& gradients) {
        if constexpr (Operation::needs == elementwise::Needs::nothing)
          gradients.set(0, gradient(operation, dy));
        else
          gradients.set(0, gradient(operation, dy, restore(saved)));
      };
    });
  }
}

template <ElementwiseCall::Part part, class Operation, class... Saved>
Tensor side_gradient(const Operation& operation, const Tensor& dy, const Saved&... saved) {
  if (composes_gradient<Operation>()) {
    if constexpr (part == ElementwiseCall::Part::gradient_lhs)
      return operation.gradient_lhs(saved..., dy);
    else
      return operation.gradient_rhs(saved..., dy);
  }
  using Part = std::conditional_t<part == ElementwiseCall::Part::gradient_lhs, elementwise::GradientLhs,
                                  elementwise::GradientRhs>;
  return Tensor(apply_formula<Part>(operation, saved.array()..., dy.array()));
}

template <class Operation> Tensor record_binary(const Operation& operation, const Tensor& lhs, const Tensor& rhs) {
  const OperationScope scope(Operation::name, lhs, rhs);
  const auto [a, b] = promote_pair(Operation::domain, Operation::name, lhs, rhs);
  const Tensor inputs[] = {a, b};
  Array value = apply_formula<elementwise::Value>(operation, a.array(), b.array());
  if constexpr (Operation::needs == elementwise::Needs::no_gradient) {
    return Tensor(std::move(value));
  } else if constexpr (Operation::needs == elementwise::Needs::zero) {
    return record(Operation::name, std::move(value), inputs, [&] {
      return [shape_a = a.shape(), shape_b = b.shape()](const auto&, const Tensor& dy, InputGradients& gradients) {
        if (gradients.wanted(0)) gradients.set(0, zero_gradient(shape_a, dy));
        if (gradients.wanted(1)) gradients.set(1, zero_gradient(shape_b, dy));
      };
    });
  } else {
    return record(Operation::name, std::move(value), inputs, [&] {
      constexpr bool saves = Operation::needs == elementwise::Needs::inputs;
      return
          [operation, saved_a = saves ? save(a, 0) : SavedTensor{}, saved_b = saves ? save(b, 1) : SavedTensor{},
           shape_a = a.shape(), shape_b = b.shape()](const auto& restore, const Tensor& dy, InputGradients& gradients) {
            const auto side = [&]<ElementwiseCall::Part part>(Side<part>) {
              if constexpr (Operation::needs == elementwise::Needs::nothing)
                return side_gradient<part>(operation, dy);
              else
                return side_gradient<part>(operation, dy, restore(saved_a), restore(saved_b));
            };
            if (gradients.wanted(0))
              gradients.set(
                  0, sum_to(side(Side<ElementwiseCall::Part::gradient_lhs>{}), shape_a, gradients.destination(0)));
            if (gradients.wanted(1))
              gradients.set(
                  1, sum_to(side(Side<ElementwiseCall::Part::gradient_rhs>{}), shape_b, gradients.destination(1)));
          };
    });
  }
}

}  // namespace tutti::detail
