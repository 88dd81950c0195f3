// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

namespace tutti {

namespace {

Sorted scalars(const Sorted& one) { return {reshape(one.values, {}), reshape(one.indices, {})}; }

}  // namespace

// What is sorted are places; values and their gradients are gathered by them.

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  const OperationScope scope("argsort", x);
  if (x.rank() == 0) return reshape(argsort(expand_dims(x, 0), axis, descending), {});
  const Tensor number = promote_into(elementwise::Domain::number, "argsort", x.detach());
  return Tensor(arg_sort(number.array(), axis, descending));
}

Sorted sort(const Tensor& x, std::int64_t axis, bool descending) {
  const OperationScope scope("sort", x);
  if (x.rank() == 0) return scalars(sort(expand_dims(x, 0), axis, descending));
  const Tensor places = argsort(x, axis, descending);
  return {gather_places(x, axis, places), places};
}

Sorted topk(const Tensor& x, std::int64_t count, std::int64_t axis, bool largest) {
  const OperationScope scope("topk", x);
  if (x.rank() == 0 && count == 1) return scalars(topk(expand_dims(x, 0), count, axis, largest));
  const std::int64_t length = x.shape()[normalize_axis("topk", axis, x.rank())];
  if (count < 0 || count > length)
    raise<ShapeError>("[topk] {} elements of {} along axis {} of {}", count, length, axis, to_string(x.shape()));
  const Tensor places(slice(argsort(x, axis, largest), axis, 0, count).array().copy());
  return {gather_places(x, axis, places), places};
}

}  // namespace tutti
