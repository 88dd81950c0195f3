// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/line_gather.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <cmath>

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

namespace {

// Which updates stay where they are set: the last of those of one element.
Tensor last_ones(const Shape& shape, std::int64_t axis, const Tensor& index) {
  const Tensor numbers(Array::arange(index.size(), DType::i64, index.device()).reshape(index.shape()));
  const Tensor nowhere(Array::zeros(shape, DType::i64, index.device()));
  return gather(scatter(nowhere, axis, index, numbers), axis, index) == numbers;
}

struct ScatterGradient {
  Scatter kind;
  std::int64_t axis;
  SavedTensor saved_x;
  SavedTensor saved_index;
  SavedTensor saved_updates;
  SavedTensor saved_result;

  void operator()(const auto& restore, const Tensor& dy, InputGradients& gradients) const {
    const Tensor index = restore(saved_index);
    switch (kind) {
      case Scatter::set: return of_set(index, dy, gradients);
      case Scatter::add: return of_add(index, dy, gradients);
      case Scatter::prod: return of_prod(restore, index, dy, gradients);
      case Scatter::max:
      case Scatter::min: return of_extreme(restore, index, dy, gradients);
    }
  }

  void of_set(const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    if (gradients.wanted(0)) gradients.set(0, scatter(dy, axis, index, 0));
    if (gradients.wanted(1)) gradients.set(1, where(last_ones(dy.shape(), axis, index), gather(dy, axis, index), 0.0));
  }

  void of_add(const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    gradients.set(0, dy);
    if (gradients.wanted(1)) gradients.set(1, gather(dy, axis, index));
  }

  // Each factor's is the product of the others: the result divided by it. A zero's is that of what is not zero, times
  // the other zeros: written as a sum where there is one other, so that it has that gradient. It is 0 then, or NaN as
  // the result is, even where what is not zero is too large a product.
  void of_prod(const auto& restore, const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    const Tensor x = widened(restore(saved_x));
    const Tensor updates = widened(restore(saved_updates));
    const Tensor wide = widened(dy);
    const Tensor of_updates = scatter(ones_like(x), axis, index, updates, Scatter::prod);
    if (gradients.wanted(0)) gradients.set(0, cast(wide * of_updates, dy.dtype()));
    if (!gradients.wanted(1)) return;
    const auto of_element = [&](const Tensor& per_element) { return gather(per_element, axis, index); };
    const Tensor zero = updates == 0;
    const Tensor zeros = of_element(scatter_add(x.shape(), cast(zero, DType::i64), axis, index));
    const Tensor other_zero = of_element(scatter_add(x.shape(), where(zero, updates, 0.0), axis, index)) - updates;
    const Tensor result = widened(restore(saved_result));
    const Tensor several = where(zeros == 2, other_zero, 0.0) + of_element(result.detach());
    const Tensor nonzero = of_element(scatter(x, axis, index, where(zero, 1.0, updates), Scatter::prod));
    const Tensor rest = where(zeros == 1, nonzero, nan_to_num(nonzero, std::nan("")) * several);
    const Tensor divided = of_element(wide * result) / where(zero, 1.0, updates);
    gradients.set(1, cast(where(zero, of_element(wide) * rest, divided), dy.dtype()));
  }

  // Shared by all that equal the result.
  void of_extreme(const auto& restore, const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    const Tensor result = restore(saved_result).detach();
    const auto is = [](const Tensor& a, const Tensor& b) { return (a == b) | (isnan(a) & isnan(b)); };
    const Tensor x_is = is(restore(saved_x).detach(), result);
    const Tensor update_is = is(restore(saved_updates).detach(), gather(result, axis, index));
    const Tensor count = cast(x_is, DType::i64) + scatter_add(dy.shape(), cast(update_is, DType::i64), axis, index);
    const Tensor share = dy / count;
    if (gradients.wanted(0)) gradients.set(0, where(x_is, share, 0.0));
    if (gradients.wanted(1)) gradients.set(1, where(update_is, gather(share, axis, index), 0.0));
  }
};

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& given, Scatter kind) {
  const OperationScope scope("scatter", x, index, given);
  Tensor updates = in_dtype_of(x, "scatter", given);
  if (given.is_weak_scalar()) updates = broadcast_to(updates, index.shape());
  const Tensor inputs[] = {x, updates};
  const Array value = scatter(kind, x.array(), axis, index.array(), updates.array());
  return record("scatter", value, inputs, [&] {
    const bool reads = kind != Scatter::set && kind != Scatter::add;
    return ScatterGradient{kind,
                           axis,
                           reads ? save(x, 0) : SavedTensor(),
                           save_constant(index),
                           reads ? save(updates, 1) : SavedTensor(),
                           reads ? SavedTensor{value, SavedTensor::kOutput} : SavedTensor()};
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
