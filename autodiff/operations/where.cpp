// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

namespace tutti {

Tensor where(const Tensor& mask, const Tensor& lhs, const Tensor& rhs) {
  const OperationScope scope("where", mask, lhs, rhs);
  if (mask.dtype() != DType::boolean)
    raise<DTypeError>("[where] the mask is {}: compare to get a bool", to_string(mask.dtype()));
  // Two literals follow the mask's device; one follows the other operand.
  const bool literals = lhs.is_weak_scalar() && rhs.is_weak_scalar();
  auto [a, b] = promote_pair(elementwise::Domain::any, "where", lhs, rhs);
  if (literals) a = to(a, mask.device()), b = to(b, mask.device());
  const Tensor inputs[] = {a, b};
  return record("where", tutti::where(mask.array(), a.array(), b.array()), inputs, [&] {
    return [saved = save_constant(mask), shape_a = a.shape(), shape_b = b.shape()](
               const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor mask = restore(saved);
      if (gradients.wanted(0)) gradients.set(0, sum_to(where(mask, dy, Tensor(0.0)), shape_a));
      if (gradients.wanted(1)) gradients.set(1, sum_to(where(mask, Tensor(0.0), dy), shape_b));
    };
  });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  const OperationScope scope("masked_fill", x, mask, value);
  if (value.rank() != 0)
    raise<ShapeError>("[masked_fill] the value is {}: it must be a scalar; use where", to_string(value.shape()));
  return where(mask, in_dtype_of(x, "masked_fill", value), x);
}

Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype) {
  const OperationScope scope("one_hot", labels);
  if (!is_integral(labels.dtype()))
    raise<DTypeError>("[one_hot] labels are {}: they must be integers", to_string(labels.dtype()));
  if (classes < 0) raise<ShapeError>("[one_hot] {} classes: they must not be negative", classes);
  Shape shape = labels.shape();
  shape.push_back(classes);
  const Tensor places = expand_dims(cast(labels, DType::i64), -1);
  const DType number = dtype == DType::boolean ? DType::i64 : dtype;
  const IndexMeaning meaning{.operation = "one_hot", .index = "label", .range = "classes", .shape = labels.shape()};
  const IndexScope numbers(meaning);
  const Tensor ones(Array::full(places.shape(), 1, number, labels.device()));
  return cast(scatter_add_places(shape, ones, -1, places), dtype);
}

}  // namespace tutti
