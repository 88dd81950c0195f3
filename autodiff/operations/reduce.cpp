// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/lines.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tutti {

Shape with_kept_axes(const Tensor& x, const Axes& axes, std::string_view operation) {
  Shape shape = x.shape();
  if (axes.empty()) return Shape(shape.size(), 1);
  for (const std::int64_t axis : axes)
    if (!is_axis_of_scalar(axis, shape)) shape[normalize_axis(operation, axis, x.rank())] = 1;
  return shape;
}

Lines lines_of(std::string_view operation, const Tensor& x, const Axes& axes) {
  const Shape kept = with_kept_axes(x, axes, operation);
  Dims order;
  Shape together;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (kept[i] == x.shape()[i]) order.push_back(static_cast<std::int64_t>(i)), together.push_back(kept[i]);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (kept[i] != x.shape()[i]) order.push_back(static_cast<std::int64_t>(i)), count *= x.shape()[i];
  together.push_back(count);
  return {reshape(permute(x, order), together), order};
}

namespace {

// f(x) in a floating type; in f32 for 16-bit ones, which might not hold what f sums on the way. Under Autocast it
// stays.
template <class F> Tensor widely(const Tensor& x, F f) {
  if (!is_floating(x.dtype())) return f(cast(x, DType::f32));
  if (!is_narrow(x.dtype())) return f(x);
  const Tensor result = f(cast(x, DType::f32));
  return autocasts() ? result : cast(result, x.dtype());
}

// The Euclidean norm of a floating type of 32 bits or more: y = sqrt(sum(x^2)), dx = x / y dy, and 0 at 0, where there
// is no slope. Squares are f64, for those of f32 overflow from 1e19 on and vanish below 1e-19.
Tensor euclidean_norm(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Array squares = reduce(Reduction::sum_of_squares, x.array().cast(DType::f64), axes, keep_dims);
  Array value = apply(elementwise::Sqrt{}, squares).cast(x.dtype());
  const SavedTensor output{value, SavedTensor::kOutput};
  const Tensor inputs[] = {x};
  return record("norm", std::move(value), inputs, [&] {
    return [output, saved = save(x, 0), kept = with_kept_axes(x, axes, "norm")](const auto& restore, const Tensor& dy,
                                                                                InputGradients& gradients) {
      const Tensor y = reshape(restore(output), kept);
      const Tensor zero = y == 0.0;
      gradients.set(0, restore(saved) / where(zero, 1.0, y) * where(zero, 0.0, reshape(dy, kept)));
    };
  });
}

// What lines_of made of a tensor of this shape, as it was.
Tensor from_lines(const Tensor& lines, const Dims& order, const Shape& shape) {
  Shape permuted;
  Dims back(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted.push_back(shape[static_cast<std::size_t>(order[i])]);
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return permute(reshape(lines, permuted), back);
}

Tensor choose(std::string_view name, ArgReduction kind, const Tensor& x, const Axes& axes, const Shape& result) {
  const Tensor lines = lines_of(name, x, axes).values;
  return reshape(gather_places(lines, -1, Tensor(arg_reduce(kind, lines.array(), -1, true))), result);
}

// What each element of the last axis, [..., n], is multiplied by in their product, times dy, [..., 1]: by halves, which
// are multiplied and never divided, so that zeros are like other numbers, also to further derivatives. Its steps are
// log2 of the length.
Tensor times_the_others(const Tensor& lines, const Tensor& dy) {
  const std::int64_t length = lines.length(-1);
  if (length == 1) return dy;
  const std::int64_t half = length / 2;
  const Tensor first = slice(lines, -1, 0, half);
  const Tensor second = slice(lines, -1, half, 2 * half);
  std::vector<Tensor> rest{first * second};
  if (length % 2 == 1) rest.push_back(slice(lines, -1, 2 * half, length));
  const Tensor of_rest = times_the_others(concatenate(rest, -1), dy);
  const Tensor of_both = slice(of_rest, -1, 0, half);
  std::vector<Tensor> parts{of_both * second, of_both * first};
  if (length % 2 == 1) parts.push_back(slice(of_rest, -1, half, half + 1));
  return concatenate(parts, -1);
}

// Of a product, in f64: what is multiplied on the way may be beyond what x's type holds.
Tensor gradient_of_prod(const Tensor& x, const Axes& axes, const Tensor& dy) {
  const Lines lines = lines_of("prod", cast(x, DType::f64), axes);
  Shape shape = lines.values.shape();
  shape[shape.size() - 1] = 1;
  const Tensor all = times_the_others(lines.values, reshape(cast(dy, DType::f64), shape));
  return cast(from_lines(all, lines.order, x.shape()), x.dtype());
}

// What sums of squares of `x`, one for each element of `reduced`, are divided by in a variance.
double divisor_of(const Tensor& x, const Tensor& reduced, double correction) {
  return std::max(0.0, static_cast<double>(x.size()) / static_cast<double>(reduced.size()) - correction);
}

Tensor extreme(std::string_view name, Reduction reduction, ArgReduction kind, const Tensor& x, const Axes& axes,
               bool keep_dims) {
  if (x.dtype() == DType::boolean)
    return cast(extreme(name, reduction, kind, cast(x, DType::i32), axes, keep_dims), DType::boolean);
  const Array value = reduce(reduction, x.array(), axes, keep_dims);
  const Tensor inputs[] = {x};
  return records(inputs) ? choose(name, kind, x, axes, value.shape()) : Tensor(value);
}

}  // namespace

Tensor sum(const Tensor& operand, const Axes& axes, bool keep_dims) {
  const OperationScope scope("sum", operand);
  const Tensor x = promote_total("sum", operand);
  const Tensor inputs[] = {x};
  return record("sum", sum(x.array(), axes, keep_dims), inputs, [&] {
    return [from = x.shape(), kept = with_kept_axes(x, axes, "sum")](const auto&, const Tensor& dy,
                                                                     InputGradients& gradients) {
      gradients.set(0, broadcast_to(reshape(dy, kept), from));
    };
  });
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("mean", x);
  return widely(x, [&](const Tensor& wide) {
    const Tensor total = sum(wide, axes, keep_dims);
    return total / (static_cast<double>(x.size()) / static_cast<double>(total.size()));
  });
}

Tensor max(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("max", x);
  return extreme("max", Reduction::max, ArgReduction::arg_max, x, axes, keep_dims);
}

Tensor min(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("min", x);
  return extreme("min", Reduction::min, ArgReduction::arg_min, x, axes, keep_dims);
}

Tensor argmax(const Tensor& x, std::int64_t axis, bool keep_dims) {
  const OperationScope scope("argmax", x);
  return Tensor(arg_reduce(ArgReduction::arg_max, x.array(), axis, keep_dims));
}

Tensor argmin(const Tensor& x, std::int64_t axis, bool keep_dims) {
  const OperationScope scope("argmin", x);
  return Tensor(arg_reduce(ArgReduction::arg_min, x.array(), axis, keep_dims));
}

Tensor argmax(const Tensor& x) {
  const OperationScope scope("argmax", x);
  return argmax(flatten(x.detach()), 0);
}

Tensor argmin(const Tensor& x) {
  const OperationScope scope("argmin", x);
  return argmin(flatten(x.detach()), 0);
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keep_dims) {
  const OperationScope scope("var", x);
  return widely(x, [&](const Tensor& wide) {
    const Tensor total = sum(square(wide - mean(wide, axes, true)), axes, keep_dims);
    return total / divisor_of(x, total, correction);
  });
}

Tensor stddev(const Tensor& x, const Axes& axes, double correction, bool keep_dims) {
  const OperationScope scope("stddev", x);
  return widely(x, [&](const Tensor& wide) {
    const Tensor total = euclidean_norm(wide - mean(wide, axes, true), axes, keep_dims);
    const double divisor = divisor_of(x, total, correction);
    return divisor == 0 ? sqrt(var(wide, axes, correction, keep_dims))
                        : total / std::sqrt(divisor);  // NaN, as its slope
  });
}

Tensor norm(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("norm", x);
  return widely(x, [&](const Tensor& wide) { return euclidean_norm(wide, axes, keep_dims); });
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("logsumexp", x);
  return widely(x, [&](const Tensor& wide) {
    if (wide.size() == 0) return sum(wide, axes, keep_dims) - std::numeric_limits<double>::infinity();
    Tensor largest(reduce(Reduction::max, wide.array(), axes, true));
    largest = where(abs(largest) < std::numeric_limits<double>::infinity(), largest, 0.0);  // -inf - -inf is NaN
    const Tensor total = log(sum(exp(wide - largest), axes, keep_dims));
    return total + reshape(largest, total.shape());
  });
}

Tensor prod(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("prod", x);
  const Tensor number = promote_total("prod", x);
  if (number.size() == 0) return sum(number, axes, keep_dims) + 1;
  const Array value = reduce(Reduction::prod, number.array(), axes, keep_dims);
  const Tensor inputs[] = {number};
  return record("prod", value, inputs, [&] {
    return [axes, saved = save(number, 0)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, gradient_of_prod(restore(saved), axes, dy));
    };
  });
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("count_nonzero", x);
  return sum(x != 0, axes, keep_dims);
}
Tensor any_true(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("any_true", x);
  return count_nonzero(x, axes, keep_dims) > 0;
}
Tensor all_true(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("all_true", x);
  return count_nonzero(x == 0, axes, keep_dims) == 0;
}

}  // namespace tutti
