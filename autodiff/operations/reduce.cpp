// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <limits>

namespace tutti {

namespace {

Shape with_kept_axes(const Tensor& x, const Axes& axes, std::string_view operation) {
  Shape shape = x.shape();
  if (axes.empty()) return Shape(shape.size(), 1);
  for (const std::int64_t axis : axes) shape[normalize_axis(operation, axis, x.rank())] = 1;
  return shape;
}

// f(x) in a floating type; in f32 for 16-bit ones, which might not hold what f sums on the way. Under Autocast it
// stays.
template <class F> Tensor widely(const Tensor& x, F f) {
  if (!is_floating(x.dtype())) return f(cast(x, DType::f32));
  if (!is_narrow(x.dtype())) return f(x);
  const Tensor result = f(cast(x, DType::f32));
  return autocasts() ? result : cast(result, x.dtype());
}

// sqrt, with the gradient 0 at 0, where it has no slope.
Tensor root(const Tensor& x) {
  const Tensor zero = x == 0.0;
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

// The reduced axes as the last one.
Tensor lines_of(std::string_view name, const Tensor& x, const Axes& axes) {
  const Shape kept = with_kept_axes(x, axes, name);
  Dims order;
  Shape together;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (kept[i] == x.shape()[i]) order.push_back(static_cast<std::int64_t>(i)), together.push_back(kept[i]);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (kept[i] != x.shape()[i]) order.push_back(static_cast<std::int64_t>(i)), count *= x.shape()[i];
  together.push_back(count);
  return reshape(permute(x, order), together);
}

Tensor choose(std::string_view name, ArgReduction kind, const Tensor& x, const Axes& axes, const Shape& result) {
  const Tensor lines = lines_of(name, x, axes);
  return reshape(gather(lines, -1, Tensor(arg_reduce(kind, lines.array(), -1, true))), result);
}

// The product along the last axis, of nothing but products of two: their gradients never divide, so that zeros are like
// other numbers, also to second derivatives. Its steps are log2 of the length.
Tensor multiplied_in_halves(const Tensor& lines) {
  Tensor rest = lines;
  while (rest.shape().back() > 1) {
    const std::int64_t half = rest.shape().back() / 2;
    const Tensor product = slice(rest, -1, 0, half) * slice(rest, -1, half, 2 * half);
    const bool odd = rest.shape().back() % 2 == 1;
    const Tensor parts[] = {product, odd ? slice(rest, -1, 2 * half, 2 * half + 1) : Tensor()};
    rest = odd ? concatenate(parts, -1) : product;
  }
  return rest;
}

Tensor extreme(std::string_view name, Reduction reduction, ArgReduction kind, const Tensor& x, const Axes& axes,
               bool keep_dims) {
  const Array value = reduce(reduction, x.array(), axes, keep_dims);
  const Tensor inputs[] = {x};
  return records(inputs) ? choose(name, kind, x, axes, value.shape()) : Tensor(value);
}

}  // namespace

Tensor sum(const Tensor& operand, const Axes& axes, bool keep_dims) {
  const Tensor x = autocast("sum", operand);
  const Tensor inputs[] = {x};
  return record("sum", sum(x.array(), axes, keep_dims), inputs, [&] {
    return [from = x.shape(), kept = with_kept_axes(x, axes, "sum")](const auto&, const Tensor& dy,
                                                                     InputGradients& gradients) {
      gradients.set(0, broadcast_to(reshape(dy, kept), from));
    };
  });
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep_dims) {
  return widely(x, [&](const Tensor& wide) {
    const Tensor total = sum(wide, axes, keep_dims);
    return total / (static_cast<double>(x.size()) / static_cast<double>(total.size()));
  });
}

Tensor max(const Tensor& x, const Axes& axes, bool keep_dims) {
  return extreme("max", Reduction::max, ArgReduction::arg_max, x, axes, keep_dims);
}

Tensor min(const Tensor& x, const Axes& axes, bool keep_dims) {
  return extreme("min", Reduction::min, ArgReduction::arg_min, x, axes, keep_dims);
}

Tensor argmax(const Tensor& x, std::int64_t axis, bool keep_dims) {
  return Tensor(arg_reduce(ArgReduction::arg_max, x.array(), axis, keep_dims));
}

Tensor argmin(const Tensor& x, std::int64_t axis, bool keep_dims) {
  return Tensor(arg_reduce(ArgReduction::arg_min, x.array(), axis, keep_dims));
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keep_dims) {
  return widely(x, [&](const Tensor& wide) {
    const Tensor total = sum(square(wide - mean(wide, axes, true)), axes, keep_dims);
    return total / (static_cast<double>(x.size()) / static_cast<double>(total.size()) - correction);
  });
}

Tensor stddev(const Tensor& x, const Axes& axes, double correction, bool keep_dims) {
  return widely(x, [&](const Tensor& wide) { return root(var(wide, axes, correction, keep_dims)); });
}

Tensor norm(const Tensor& x, const Axes& axes, bool keep_dims) {
  return widely(x, [&](const Tensor& wide) { return root(sum(square(wide), axes, keep_dims)); });
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep_dims) {
  return widely(x, [&](const Tensor& wide) {
    Tensor largest(reduce(Reduction::max, wide.array(), axes, true));
    largest = where(abs(largest) < std::numeric_limits<double>::infinity(), largest, 0.0);  // -inf - -inf is NaN
    const Tensor total = log(sum(exp(wide - largest), axes, keep_dims));
    return total + reshape(largest, total.shape());
  });
}

Tensor prod(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Tensor number = promote_into(elementwise::Domain::number, "prod", x);
  if (number.size() == 0) return sum(number, axes, keep_dims) + 1;
  const Array value = reduce(Reduction::prod, number.array(), axes, keep_dims);
  const Tensor inputs[] = {number};
  if (!records(inputs)) return Tensor(value);
  return reshape(multiplied_in_halves(lines_of("prod", number, axes)), value.shape());
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keep_dims) {
  return sum(cast(x != 0, DType::i64), axes, keep_dims);
}
Tensor any_true(const Tensor& x, const Axes& axes, bool keep_dims) { return count_nonzero(x, axes, keep_dims) > 0; }
Tensor all_true(const Tensor& x, const Axes& axes, bool keep_dims) {
  return count_nonzero(x == 0, axes, keep_dims) == 0;
}

}  // namespace tutti
