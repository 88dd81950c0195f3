// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <span>
#include <vector>

namespace tutti {

namespace {

Shape with_kept_axes(const Tensor& x, std::span<const std::int64_t> axes, std::string_view operation) {
  Shape shape = x.shape();
  if (axes.empty()) return Shape(shape.size(), 1);
  for (const std::int64_t axis : axes) shape[normalize_axis(operation, axis, x.rank())] = 1;
  return shape;
}

}  // namespace

Tensor sum(const Tensor& x, std::initializer_list<std::int64_t> axes, bool keep_dims) {
  const std::span<const std::int64_t> list(axes.begin(), axes.size());
  const Tensor inputs[] = {x};
  return record("sum", sum(x.array(), list, keep_dims), inputs, [&] {
    return [from = x.shape(), kept = with_kept_axes(x, list, "sum")](const auto&, const Tensor& dy,
                                                                     InputGradients& gradients) {
      gradients.set(0, broadcast_to(reshape(dy, kept), from));
    };
  });
}

Tensor mean(const Tensor& x, std::initializer_list<std::int64_t> axes, bool keep_dims) {
  if (is_narrow(x.dtype()) && is_floating(x.dtype()))  // the sum may be more than its type holds
    return cast(mean(cast(x, DType::f32), axes, keep_dims), x.dtype());
  const Tensor floating = is_floating(x.dtype()) ? x : cast(x, DType::f32);
  const Tensor total = sum(floating, axes, keep_dims);
  const auto averaged = static_cast<double>(x.size()) / static_cast<double>(total.size());
  return total / averaged;
}

Tensor max(const Tensor& x, std::int64_t axis, bool keep_dims) {
  const Tensor index(arg_reduce(ArgReduction::arg_max, x.array(), axis, true));
  const Tensor kept = gather(x, axis, index);
  if (keep_dims) return kept;
  Shape shape = kept.shape();
  shape.erase(normalize_axis("max", axis, x.rank()));
  return reshape(kept, shape);
}

Tensor argmax(const Tensor& x, std::int64_t axis, bool keep_dims) {
  return Tensor(arg_reduce(ArgReduction::arg_max, x.array(), axis, keep_dims));
}

}  // namespace tutti
