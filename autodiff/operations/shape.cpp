// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <numeric>
#include <vector>

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
  const Tensor inputs[] = {x};
  Array value = x.array().reshape(shape);
  const Shape to = value.shape();
  return record("reshape", std::move(value), inputs, [&] { return ReshapeGradient{x.shape(), to}; });
}

Tensor flatten(const Tensor& x, std::int64_t first_axis) {
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

Tensor permute_axes(const Tensor& x, const std::vector<std::int64_t>& axes);

struct PermuteGradient {
  std::vector<std::int64_t> axes;
  template <class Restore> void operator()(const Restore&, const Tensor& dy, InputGradients& gradients) const {
    std::vector<std::int64_t> inverse(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
      inverse[normalize_axis("permute", axes[i], axes.size())] = static_cast<std::int64_t>(i);
    gradients.set(0, permute_axes(dy, inverse));
  }
  Array view(const Array& input) const { return input.permute(axes); }
};

Tensor permute_axes(const Tensor& x, const std::vector<std::int64_t>& axes) {
  const Tensor inputs[] = {x};
  return record("permute", x.array().permute(axes), inputs, [&] { return PermuteGradient{axes}; });
}

}  // namespace

Tensor permute(const Tensor& x, std::initializer_list<std::int64_t> axes) {
  return permute_axes(x, std::vector<std::int64_t>(axes));
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1) {
  std::vector<std::int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[normalize_axis("transpose", axis0, x.rank())], axes[normalize_axis("transpose", axis1, x.rank())]);
  return permute_axes(x, axes);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const Tensor inputs[] = {x};
  return record("broadcast_to", x.array().broadcast_to(shape), inputs, [&] {
    return [from = x.shape()](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, sum_to(dy, from));
    };
  });
}

Tensor sum_to(const Tensor& x, const Shape& shape, const Array& destination) {
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
