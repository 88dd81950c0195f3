// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <cmath>

namespace tutti {

// Each is the other's gradient.

Tensor gather_places(const Tensor& input, std::int64_t axis, const Tensor& places) {
  const OperationScope scope("gather", input, places);
  const Tensor inputs[] = {input};
  return record("gather", gather(input.array(), axis, places.array()), inputs, [&] {
    return [shape = input.shape(), axis, saved = save_constant(places)](const auto& restore, const Tensor& dy,
                                                                        InputGradients& gradients) {
      const Tensor places = restore(saved);
      if (const Array destination = gradients.destination(0); destination.defined() && destination.is_contiguous())
        gradients.set(0, Tensor(scatter_add(shape, dy.array(), axis, places.array(), destination)));
      else
        gradients.set(0, scatter_add_places(shape, dy, axis, places));
    };
  });
}

Tensor scatter_add_places(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& places) {
  const OperationScope scope("scatter_add", updates, places);
  const Tensor inputs[] = {updates};
  return record("scatter_add", scatter_add(shape, updates.array(), axis, places.array()), inputs, [&] {
    return [axis, saved = save_constant(places)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, gather_places(dy, axis, restore(saved)));
    };
  });
}

namespace {

// Which updates stay where they are set: the last of those of one element.
Tensor last_ones(const Shape& shape, std::int64_t axis, const Tensor& index) {
  const Tensor numbers(Array::arange(index.size(), DType::i64, index.device()).reshape(index.shape()));
  const Tensor nowhere(Array::zeros(shape, DType::i64, index.device()));
  return gather_places(scatter_places(nowhere, axis, index, numbers), axis, index) == numbers;
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
    if (gradients.wanted(0)) gradients.set(0, scatter_places(dy, axis, index, Tensor(0)));
    if (gradients.wanted(1))
      gradients.set(1, where(last_ones(dy.shape(), axis, index), gather_places(dy, axis, index), 0.0));
  }

  void of_add(const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    gradients.set(0, dy);
    if (gradients.wanted(1)) gradients.set(1, gather_places(dy, axis, index));
  }

  // Each factor's is the product of the others: the result divided by it. A zero's is that of what is not zero, times
  // the other zeros: written as a sum where there is one other, so that it has that gradient. It is 0 then, or NaN as
  // the result is, even where what is not zero is too large a product.
  void of_prod(const auto& restore, const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    const Tensor x = widened(restore(saved_x));
    const Tensor updates = widened(restore(saved_updates));
    const Tensor wide = widened(dy);
    const Tensor of_updates = scatter_places(ones_like(x), axis, index, updates, Scatter::prod);
    if (gradients.wanted(0)) gradients.set(0, cast(wide * of_updates, dy.dtype()));
    if (!gradients.wanted(1)) return;
    const auto of_element = [&](const Tensor& per_element) { return gather_places(per_element, axis, index); };
    const Tensor zero = updates == 0;
    const Tensor zeros = of_element(scatter_add_places(x.shape(), cast(zero, DType::i64), axis, index));
    const Tensor other_zero =
        of_element(scatter_add_places(x.shape(), where(zero, updates, 0.0), axis, index)) - updates;
    const Tensor result = widened(restore(saved_result));
    const Tensor several = where(zeros == 2, other_zero, 0.0) + of_element(result.detach());
    const Tensor nonzero = of_element(scatter_places(x, axis, index, where(zero, 1.0, updates), Scatter::prod));
    const Tensor rest = where(zeros == 1, nonzero, nan_to_num(nonzero, std::nan("")) * several);
    const Tensor divided = of_element(wide * result) / where(zero, 1.0, updates);
    gradients.set(1, cast(where(zero, of_element(wide) * rest, divided), dy.dtype()));
  }

  // Shared by all that equal the result.
  void of_extreme(const auto& restore, const Tensor& index, const Tensor& dy, InputGradients& gradients) const {
    const Tensor result = restore(saved_result).detach();
    const auto is = [](const Tensor& a, const Tensor& b) { return (a == b) | (isnan(a) & isnan(b)); };
    const Tensor x_is = is(restore(saved_x).detach(), result);
    const Tensor update_is = is(restore(saved_updates).detach(), gather_places(result, axis, index));
    const Tensor count =
        cast(x_is, DType::i64) + scatter_add_places(dy.shape(), cast(update_is, DType::i64), axis, index);
    const Tensor share = dy / count;
    if (gradients.wanted(0)) gradients.set(0, where(x_is, share, 0.0));
    if (gradients.wanted(1)) gradients.set(1, where(update_is, gather_places(share, axis, index), 0.0));
  }
};

}  // namespace

Tensor scatter_places(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& given, Scatter kind) {
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

namespace {

IndexMeaning index_along_axis(std::string_view operation, const Tensor& index) {
  return {.operation = operation,
          .index = "index",
          .range = "elements of its axis",
          .shape = index.shape(),
          .from_back = true};
}

std::int64_t length_along(std::string_view operation, const Shape& shape, std::int64_t axis) {
  return shape[normalize_axis(operation, axis, shape.size())];
}

}  // namespace

Tensor places_of(std::string_view operation, const Tensor& indices, std::int64_t length) {
  if (!is_integral(indices.dtype()))
    raise<DTypeError>("[{}] positions are {}: they must be integers", operation, to_string(indices.dtype()));
  Tensor once = cast(indices, DType::i64);  // of an axis that is broadcast a place alone
  for (std::size_t axis = 0; axis < once.rank(); ++axis)
    if (once.shape()[axis] > 1 && once.array().strides()[axis] == 0)
      once = slice(once, static_cast<std::int64_t>(axis), 0, 1);
  return broadcast_to(where(once < 0, once + length, once), indices.shape());
}

Tensor gather(const Tensor& input, std::int64_t axis, const Tensor& index) {
  const OperationScope scope("gather", input, index);
  if (is_axis_of_scalar(axis, input.shape()) && index.rank() == 0)
    return reshape(gather(expand_dims(input, 0), 0, expand_dims(index, 0)), {});
  const IndexMeaning meaning = index_along_axis("gather", index);
  const IndexScope along(meaning);
  return gather_places(input, axis, places_of("gather", index, length_along("gather", input.shape(), axis)));
}

Tensor scatter_add(const Shape& shape, const Tensor& updates, std::int64_t axis, const Tensor& index) {
  const OperationScope scope("scatter_add", updates, index);
  if (is_axis_of_scalar(axis, shape) && updates.rank() == 0 && index.rank() == 0)
    return reshape(scatter_add({1}, expand_dims(updates, 0), 0, expand_dims(index, 0)), {});
  const IndexMeaning meaning = index_along_axis("scatter_add", index);
  const IndexScope along(meaning);
  return scatter_add_places(shape, updates, axis,
                            places_of("scatter_add", index, length_along("scatter_add", shape, axis)));
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& updates, Scatter kind) {
  const OperationScope scope("scatter", x, index, updates);
  if (is_axis_of_scalar(axis, x.shape()) && index.rank() == 0)
    return reshape(scatter_places(expand_dims(x, 0), 0, places_of("scatter", expand_dims(index, 0), 1),
                                  updates.is_weak_scalar() ? updates : flatten(updates), kind),
                   {});
  const IndexMeaning meaning = index_along_axis("scatter", index);
  const IndexScope along(meaning);
  const Tensor places = places_of("scatter", index, length_along("scatter", x.shape(), axis));
  return scatter_places(x, axis, places, updates, kind);
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
  return reshape(gather_places(lines, 1, index), shape);
}

}  // namespace tutti
