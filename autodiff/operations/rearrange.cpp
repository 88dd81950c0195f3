// SPDX-License-Identifier: Apache-2.0
// Elements in another order, or shown several times.
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/strided_view.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

namespace {

// Its own gradient. The view goes backwards and is copied: no tensor has negative strides.
Tensor reversed(const Tensor& x, const std::vector<bool>& chosen) {
  StridedView backwards;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t length = x.shape()[axis];
    backwards.first.push_back(chosen[axis] ? length - 1 : 0);
    backwards.axes.push_back({length, chosen[axis] ? -1 : 1, static_cast<std::int64_t>(axis)});
  }
  const Tensor inputs[] = {x};
  return record("flip", backwards.of(x.array()).copy(), inputs, [&] {
    return
        [chosen](const auto&, const Tensor& dy, InputGradients& gradients) { gradients.set(0, reversed(dy, chosen)); };
  });
}

}  // namespace

Tensor flip(const Tensor& x, const Axes& axes) {
  const OperationScope scope("flip", x);
  std::vector<bool> chosen(x.rank(), axes.empty());
  for (const std::int64_t axis : axes) {
    if (is_axis_of_scalar(axis, x.shape())) continue;
    const std::size_t place = normalize_axis("flip", axis, x.rank());
    if (chosen[place]) raise<ShapeError>("[flip] axis {} is named twice", axis);
    chosen[place] = true;
  }
  bool moves = false;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) moves = moves || (chosen[axis] && x.shape()[axis] > 1);
  return moves ? reversed(x, chosen) : x;
}

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const OperationScope scope("roll", x);
  if (is_axis_of_scalar(axis, x.shape())) return x;
  const std::int64_t length = x.shape()[normalize_axis("roll", axis, x.rank())];
  const std::int64_t turned = length == 0 ? 0 : shift % length;
  const std::int64_t begin = turned > 0 ? length - turned : -turned;  // what comes to be the first
  if (begin == 0) return x;
  return concatenate({slice(x, axis, begin, length), slice(x, axis, 0, begin)}, axis);
}

Tensor roll(const Tensor& x, std::int64_t shift) {
  const OperationScope scope("roll", x);
  return reshape(roll(flatten(x), shift, 0), x.shape());
}

namespace {

// Windows of `size` elements every `step`, `count` of them from `first` on; their elements are the last axis.
StridedView windows_of(const Shape& shape, std::size_t axis, std::int64_t first, std::int64_t count, std::int64_t size,
                       std::int64_t step) {
  StridedView view;
  view.first.assign(shape.size(), 0);
  view.first[axis] = first;
  const auto along = static_cast<std::int64_t>(axis);
  for (std::size_t i = 0; i < shape.size(); ++i)
    view.axes.push_back(i == axis ? StridedView::Axis{count, step, along}
                                  : StridedView::Axis{shape[i], 1, static_cast<std::int64_t>(i)});
  view.axes.push_back({size, 1, along});
  return view;
}

// Zeros of `shape` with the windows added where they lie. Of windows so far apart that they share no element all are
// put there at once.
Tensor folded(const Tensor& windows, const Shape& shape, std::size_t axis, std::int64_t size, std::int64_t step) {
  const std::int64_t count = windows.shape()[axis];
  const std::int64_t apart = (size - 1) / step + 1;
  Tensor sum;
  for (std::int64_t first = 0; first < std::min(apart, count); ++first) {
    const Tensor some = slice(windows, static_cast<std::int64_t>(axis), first, count, apart);
    const StridedView view = windows_of(shape, axis, first * step, some.shape()[axis], size, apart * step);
    const Tensor put = put_view("unfold", some, shape, view);
    sum = sum.defined() ? sum + put : put;
  }
  return sum;
}

}  // namespace

Tensor unfold(const Tensor& x, std::int64_t axis, std::int64_t size, std::int64_t step) {
  const OperationScope scope("unfold", x);
  const std::size_t place = normalize_axis("unfold", axis, x.rank());
  const std::int64_t length = x.shape()[place];
  if (size < 1 || size > length)
    raise<ShapeError>("[unfold] windows of {} elements along axis {} of {}", size, axis, to_string(x.shape()));
  if (step < 1) raise<ShapeError>("[unfold] windows every {} elements: the step must be positive", step);
  const StridedView view = windows_of(x.shape(), place, 0, (length - size) / step + 1, size, step);
  const Tensor inputs[] = {x};
  return record("unfold", view.of(x.array()), inputs, [&] {
    return [shape = x.shape(), place, size, step](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, folded(dy, shape, place, size, step));
    };
  });
}

std::vector<Tensor> meshgrid(std::span<const Tensor> coordinates, MeshOrder order) {
  const OperationScope scope("meshgrid", coordinates);
  Shape shape;
  for (const Tensor& axis : coordinates) {
    if (axis.rank() > 1)
      raise<ShapeError>("[meshgrid] coordinates are {}: they must have one axis", to_string(axis.shape()));
    shape.push_back(axis.size());
  }
  checks::require_enumerator("meshgrid", "MeshOrder", order, MeshOrder::xy);
  const std::size_t rank = coordinates.size();
  const bool swapped = order == MeshOrder::xy && rank > 1;
  if (swapped) std::swap(shape[0], shape[1]);
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < rank; ++i) {
    Shape along(rank, 1);
    along[swapped && i < 2 ? 1 - i : i] = coordinates[i].size();
    grids.push_back(broadcast_to(reshape(coordinates[i], along), shape));
  }
  return grids;
}

namespace {

// The last axis alone, of many lines: gathered by one index for all, as runs of few equal elements take long to copy
// one by one.
Tensor repeated_elements(const Tensor& x, std::int64_t count) {
  const std::size_t last = x.rank() - 1;
  const Tensor places = floor_divide(arange(0, x.shape()[last] * count, {.device = x.device()}), count);
  const Tensor inputs[] = {x};
  return record("repeat_interleave", gather_lines(x.detach(), last, places).array(), inputs, [&] {
    return [shape = x.shape(), count](const auto&, const Tensor& dy, InputGradients& gradients) {
      Shape runs = shape;
      runs.push_back(count);
      gradients.set(0, sum(reshape(dy, runs), {-1}));
    };
  });
}

}  // namespace

Tensor repeat_interleave(const Tensor& x, std::int64_t count, std::int64_t axis) {
  const OperationScope scope("repeat_interleave", x);
  const std::size_t place = normalize_axis("repeat_interleave", axis, x.rank());
  if (count < 0) raise<ShapeError>("[repeat_interleave] {} repeats: they must not be negative", count);
  constexpr std::int64_t kShort = 32;
  constexpr std::int64_t kManyLines = 16;
  const std::int64_t length = x.shape()[place];
  if (place + 1 == x.rank() && 1 < count && count < kShort && 1 < length && kManyLines <= x.size() / length)
    return repeated_elements(x, count);
  Shape repeated = x.shape();
  repeated.insert(place + 1, count);
  Shape joined = x.shape();
  joined[place] =
      (CheckedSize(length) * count).get("repeat_interleave", "{} repeats along axis {} of {}", count, axis, x.shape());
  return reshape(broadcast_to(expand_dims(x, static_cast<std::int64_t>(place) + 1), repeated), joined);
}

}  // namespace tutti
