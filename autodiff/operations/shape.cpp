// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <numeric>

namespace tutti {

namespace {

struct ReshapeGradient {
  Shape from;
  Shape to;
  template <class Restore> void operator()(const Restore&, const Tensor& dy, InputGradients& gradients) const {
    gradients.set(0, reshape(dy, from));
  }
  Array view(const Array& input) const { return input.reshape(to); }
};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const OperationScope scope("reshape", x);
  const Tensor inputs[] = {x};
  Array value = x.array().reshape(shape);
  const Shape to = value.shape();
  return record("reshape", std::move(value), inputs, [&] { return ReshapeGradient{x.shape(), to}; });
}

Tensor flatten(const Tensor& x, std::int64_t first_axis) {
  const OperationScope scope("flatten", x);
  if (x.rank() == 0) return flatten(reshape(x, {1}), first_axis);
  const std::size_t first = normalize_axis("flatten", first_axis, x.rank());
  Shape shape;
  std::int64_t joined = 1;
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (axis < first)
      shape.push_back(x.shape()[axis]);
    else
      joined *= x.shape()[axis];
  shape.push_back(joined);
  return reshape(x, shape);
}

namespace {

struct PermuteGradient {
  Axes axes;
  template <class Restore> void operator()(const Restore&, const Tensor& dy, InputGradients& gradients) const {
    Dims inverse(axes.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i)
      inverse[normalize_axis("permute", axes[i], axes.size())] = static_cast<std::int64_t>(i);
    gradients.set(0, permute(dy, inverse));
  }
  Array view(const Array& input) const { return input.permute(axes); }
};

Dims all_axes(std::size_t rank) {
  Dims axes(rank, 0);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

Tensor permute(const Tensor& x, const Axes& axes) {
  const OperationScope scope("permute", x);
  const Tensor inputs[] = {x};
  return record("permute", x.array().permute(axes), inputs, [&] { return PermuteGradient{axes}; });
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1) {
  const OperationScope scope("transpose", x);
  Dims axes = all_axes(x.rank());
  std::swap(axes[normalize_axis("transpose", axis0, x.rank())], axes[normalize_axis("transpose", axis1, x.rank())]);
  return permute(x, axes);
}

Tensor moveaxis(const Tensor& x, std::int64_t from, std::int64_t to) {
  const OperationScope scope("moveaxis", x);
  const std::size_t source = normalize_axis("moveaxis", from, x.rank());
  Dims axes = all_axes(x.rank());
  axes.erase(source);
  axes.insert(normalize_axis("moveaxis", to, x.rank()), static_cast<std::int64_t>(source));
  return permute(x, axes);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  const OperationScope scope("squeeze", x);
  Dims dropped(x.rank(), 0);
  for (const std::int64_t axis : axes) {
    if (is_axis_of_scalar(axis, x.shape())) continue;
    const std::size_t place = normalize_axis("squeeze", axis, x.rank());
    if (x.shape()[place] != 1)
      raise<ShapeError>("[squeeze] axis {} of {} is not of length 1", axis, to_string(x.shape()));
    dropped[place] = 1;
  }
  Shape shape;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (axes.empty() ? x.shape()[i] != 1 : dropped[i] == 0) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor expand_dims(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("expand_dims", x);
  Shape shape = x.shape();
  shape.insert(static_cast<std::size_t>(normalize_new_axis("expand_dims", axis, shape)), 1);
  return reshape(x, shape);
}

Tensor tile(const Tensor& x, const Shape& counts) {
  const OperationScope scope("tile", x);
  const std::size_t rank = std::max(x.rank(), counts.size());
  Shape apart;  // each axis behind one of its own for the repeats
  Shape repeated;
  Shape joined;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t length = i + x.rank() < rank ? 1 : x.shape()[i + x.rank() - rank];
    const std::int64_t count = i + counts.size() < rank ? 1 : counts[i + counts.size() - rank];
    if (count < 0) raise<ShapeError>("[tile] {} repeats: they must not be negative", to_string(counts));
    apart.push_back(1), apart.push_back(length);
    repeated.push_back(count), repeated.push_back(length);
    joined.push_back((CheckedSize(count) * length).get("tile", "{} repeats of {}", counts, x.shape()));
  }
  return reshape(broadcast_to(reshape(x, apart), repeated), joined);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const OperationScope scope("broadcast_to", x);
  if (x.shape() == shape) return x;
  const Tensor inputs[] = {x};
  return record("broadcast_to", x.array().broadcast_to(shape), inputs, [&] {
    return [from = x.shape()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, sum_to(dy, from));
    };
  });
}

Tensor sum_to(const Tensor& x, const Shape& shape, const Array& destination) {
  const OperationScope scope("sum_to", x);
  if (destination.defined()) return Tensor(sum_to(x.array(), shape, destination));
  if (x.shape() == shape) return x;
  const Tensor inputs[] = {x};
  return record("sum_to", sum_to(x.array(), shape), inputs, [&] {
    return [from = x.shape()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, broadcast_to(dy, from));
    };
  });
}

}  // namespace tutti
