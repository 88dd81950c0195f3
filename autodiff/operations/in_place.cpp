// SPDX-License-Identifier: Apache-2.0
// What Tensor offers for writing in place.
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

namespace {

// Of a view that shows no element twice each step is longer than all that the shorter ones run over.
bool repeats_elements(const Array& array) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // step, length
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    if (array.shape()[axis] == 0) return false;
    if (array.shape()[axis] > 1) axes.emplace_back(array.strides()[axis], array.shape()[axis]);
  }
  std::ranges::sort(axes);
  std::int64_t covered = 0;
  for (const auto& [step, length] : axes) {
    if (step <= covered) return true;
    covered += step * (length - 1);
  }
  return false;
}
void require_writable(const char* operation, const Tensor& x) {
  const Array& target = x.array();
  if (x.is_weak_scalar()) raise<AutodiffError>("[{}] a literal has no memory to write to", operation);
  if (const auto& node = x.node())
    raise<AutodiffError>(
        "[{}] this tensor was made by {}, whose graph would not know of the write: write under NoGrad to the leaf or a "
        "view of it, to a detach()ed tensor, or use an operation that gives a new one",
        operation, node->title());
  if (x.requires_grad() && grad_enabled())
    raise<AutodiffError>("[{}] a leaf that requires a gradient is written to under NoGrad only", operation);
  if (repeats_elements(target))
    raise<ShapeError>("[{}] a view that is broadcast or unfolded has several elements at one place: write to a copy",
                      operation);
}

void require_plain(const char* operation, const Tensor& value) {
  if (grad_enabled() && value.requires_grad())
    raise<AutodiffError>(
        "[{}] the value requires a gradient, which would be lost: detach() it, write under NoGrad, or use "
        "slice_assign or another operation that is recorded",
        operation);
}

// bool < integer < floating
int kind_of(DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1; }

void require_same_kind(const char* operation, DType result, DType target) {
  if (kind_of(result) > kind_of(target))
    raise<DTypeError>("[{}] the result is {}, which {} cannot hold: cast first", operation, to_string(result),
                      to_string(target));
}

void require_fit(const char* operation, const Array& value, const Array& target) {
  if (broadcast_shapes(operation, value.shape(), target.shape()) != target.shape())
    raise<ShapeError>("[{}] a value of shape {} does not fit into {}", operation, to_string(value.shape()),
                      to_string(target.shape()));
}

// Its elements are read before others are written, unless they lie elsewhere.
Array apart_from(const Array& target, const Array& value) {
  return value.storage() == target.storage() ? value.copy() : value;
}

void write(const char* operation, Array target, const Array& value) {
  require_fit(operation, value, target);
  const Array same = apart_from(target, value.device() == target.device() ? value.cast(target.dtype()) : value);
  target.copy_from(same.broadcast_to(target.shape()).to(target.device()).cast(target.dtype()));
  target.count_write(operation);
}

template <class Operation>
void combine_values(const char* name, const Operation& operation, const Tensor& x, const Tensor& operand) {
  const auto [a, b] = promote_pair(Operation::domain, name, x, operand);
  require_same_kind(name, a.dtype(), x.dtype());
  const Array& target = x.array();
  require_fit(name, b.array(), target);
  const bool direct =
      a.dtype() == x.dtype() && target.is_contiguous() && target.size() > 0 && b.array().storage() != target.storage();
  if (!direct) {
    write(name, target, apply(operation, a.array(), b.array()));
    return;
  }
  const Array inputs[] = {target, b.array().broadcast_to(target.shape())};
  target.count_write(name);
  backend_for(target.device())
      .elementwise(elementwise::make_call(operation, ElementwiseCall::Part::value), inputs, target);
}

template <class Operation>
Tensor combine(const char* name, const Operation& operation, const Tensor& x, const Tensor& operand) {
  const OperationScope scope(name, x, operand);
  require_writable(name, x);
  require_plain(name, operand);
  const NoGrad no_grad;
  const Tensor before = detects_anomalies() ? Tensor(x.array().copy()) : Tensor();
  combine_values(name, operation, x, operand);
  if (before.defined()) {
    const Tensor inputs[] = {before, operand};
    detail::inspect_result(name, x.array(), inputs);
  }
  return x;
}

}  // namespace

void detail::refuse_to_lose_leaf(const char* operation, const char* in_place, const Tensor& x) {
  if (!grad_enabled() && !inference_enabled() && x.requires_grad() && x.is_leaf())
    raise<AutodiffError>(
        "[operator{0}] on the left is a leaf that requires a gradient: the variable would name another tensor, and the "
        "leaf keep its value. Write into it by {1}, or, to compute with it, make another variable",
        operation, in_place);
}

Tensor Tensor::add_(const Tensor& value) const { return combine("add_", elementwise::Add{}, *this, value); }
Tensor Tensor::sub_(const Tensor& value) const { return combine("sub_", elementwise::Subtract{}, *this, value); }
Tensor Tensor::mul_(const Tensor& value) const { return combine("mul_", elementwise::Multiply{}, *this, value); }
Tensor Tensor::div_(const Tensor& value) const { return combine("div_", elementwise::Divide{}, *this, value); }

void detail::require_part_of_variable(const char* operation, const Tensor& x) {
  if (!x.is_writable())
    raise<AutodiffError>(
        "[operator{}] on the left is a copy, or a part of what a graph made, which would not know of the write: only a "
        "part x[...] of a variable that no graph made, without index tensors, can be written to. Use x = "
        "slice_assign(x, {{...}}, value)",
        operation);
}

void Tensor::write_through(const Tensor& value) const {
  detail::require_part_of_variable("=", *this);
  copy_(value);
}

Tensor Tensor::fill_(const Scalar& value) const {
  const OperationScope scope("fill_", *this);
  require_writable("fill_", *this);
  require_fit("fill_", value, dtype());
  Array target = array();
  target.fill(value);
  target.count_write("fill_");
  return *this;
}

Tensor Tensor::copy_(const Tensor& value) const {
  const OperationScope scope("copy_", *this, value);
  require_writable("copy_", *this);
  require_plain("copy_", value);
  if (value.is_weak_scalar()) require_fit("copy_", weak_value(value), dtype());
  write("copy_", array(),
        value.is_weak_scalar() ? Array::full({}, weak_value(value), dtype(), device()) : value.array());
  if (detects_anomalies()) detail::inspect_result("copy_", array(), std::span(&value, 1));
  return *this;
}

}  // namespace tutti
