// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <limits>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;
using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);

/// Axes as they are told, or all of them; none: the tensor stays as it is.
std::optional<Axes> axes_of(const Call& call) {
  const auto told = call.integers("axes", 1);
  const bool stays = call.integer("noop_with_empty_axes", 0) != 0;
  if (told && !told->empty()) return Axes(*told);
  if (stays) return std::nullopt;
  return Axes();
}

template <Reduce reduce, Tensor (*before)(const Tensor&) = nullptr, Tensor (*after)(const Tensor&) = nullptr>
Tensors reduced(const Call& call) {
  const Tensor& x = call.in(0);
  const bool keeps = call.integer("keepdims", 1) != 0;
  const std::optional<Axes> axes = axes_of(call);
  Tensor y = x;
  if constexpr (before != nullptr) y = before(y);
  if (axes) y = reduce(y, *axes, keeps);
  if constexpr (after != nullptr) y = after(y);
  return {cast(y, x.dtype())};
}

Tensor log_sum_exp(const Tensor& x, const Axes& axes, bool keeps) { return logsumexp(x, axes, keeps); }

/// The largest (smallest) of none is the type's end.
template <Reduce reduce, int sign> Tensor extreme(const Tensor& x, const Axes& axes, bool keeps) {
  if (x.dtype() == DType::boolean) return cast(extreme<reduce, sign>(cast(x, DType::u8), axes, keeps), DType::boolean);
  if (x.size() > 0) return reduce(x, axes, keeps);
  const Tensor shape = sum(x, axes, keeps);
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  if (is_floating(x.dtype())) return full(shape.shape(), sign * -std::numeric_limits<double>::infinity(), options);
  const auto end = [&]<class T>(T) {
    using Limits = std::numeric_limits<T>;
    return static_cast<std::int64_t>(sign > 0 ? Limits::min() : Limits::max());
  };
  switch (x.dtype()) {
    case DType::i8: return full(shape.shape(), end(std::int8_t{}), options);
    case DType::u8: return full(shape.shape(), end(std::uint8_t{}), options);
    case DType::i32: return full(shape.shape(), end(std::int32_t{}), options);
    default: return full(shape.shape(), end(std::int64_t{}), options);
  }
}

/// Of integers exact, and cut towards 0.
Tensor mean_of(const Tensor& x, const Axes& axes, bool keeps) {
  if (is_floating(x.dtype())) return mean(x, axes, keeps);
  const Tensor total = sum(x, axes, keeps);
  if (total.size() == 0) return total;
  const Tensor count = scalar_like(x, x.size() / total.size(), total.dtype());
  return floor_divide(total - fmod(total, count), count);
}

Tensor root_of_squares(const Tensor& x, const Axes& axes, bool keeps) {
  return norm(is_floating(x.dtype()) ? x : cast(x, DType::f64), axes, keeps);
}

Tensor square_of(const Tensor& x) { return x * x; }

template <Tensor (*find)(const Tensor&, std::int64_t, bool)> Tensors place(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = call.integer("axis", 0);
  const bool keeps = call.integer("keepdims", 1) != 0;
  if (call.integer("select_last_index", 0) == 0) return {find(x, axis, keeps)};
  const Tensor last = scalar_like(x, x.length(axis) - 1, DType::i64);
  return {last - find(flip(x, {axis}), axis, keeps)};
}

template <Tensor (*run)(const Tensor&, std::int64_t), int neutral> Tensors running(const Call& call) {
  const Tensor& x = call.in(0);
  const auto axis = call.values(1).at(0);
  const bool reverse = call.integer("reverse", 0) != 0;
  Tensor y = reverse ? flip(x, {axis}) : x;
  const std::int64_t length = x.length(axis);
  if (call.integer("exclusive", 0) != 0 && length > 0) {
    Shape one = x.shape();
    one[static_cast<std::size_t>(axis < 0 ? axis + x.dim() : axis)] = 1;
    y = concatenate({full(one, neutral, {.dtype = x.dtype(), .device = x.device()}), slice(y, axis, 0, length - 1)},
                    axis);
  }
  y = cast(run(y, axis), x.dtype());
  return {reverse ? flip(y, {axis}) : y};
}

Tensors largest(const Call& call) {
  const Tensor& x = call.in(0);
  if (call.opset() >= 10 && call.in(1).size() != 1) call.refuse("k has to be one number");
  const std::int64_t count = call.opset() < 10 ? call.integer("k", 0) : call.values(1)[0];
  (void)call.integer("sorted", 1);
  const Sorted found = topk(x, count, call.integer("axis", -1), call.integer("largest", 1) != 0);
  return {found.values, found.indices};
}

Tensors lp_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = call.integer("axis", -1);
  const std::int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2) call.refuse("p is neither 1 nor 2");
  const Tensor size = p == 1 ? sum(abs(x), {axis}, true) : norm(x, {axis}, true);
  const Tensor zero = scalar_like(x, 0.0);
  return {where(size == zero, zero, x / size)};
}

Tensors mean_variance_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  const Axes axes(call.integers("axes").value_or(Integers{0, 2, 3}));
  const Tensor centred = x - mean(x, axes, true);
  const Tensor deviation = sqrt(mean(centred * centred, axes, true));
  return {centred / (deviation + scalar_like(x, 1e-9))};
}

constexpr OperatorEntry kOperators[] = {
    {"ArgMax", place<argmax>},
    {"ArgMin", place<argmin>},
    {"CumProd", running<cumprod, 1>},
    {"CumSum", running<cumsum, 0>},
    {"LpNormalization", lp_normalized},
    {"MeanVarianceNormalization", mean_variance_normalized},
    {"ReduceL1", reduced<sum, abs>},
    {"ReduceL2", reduced<root_of_squares, abs>},
    {"ReduceLogSum", reduced<sum, nullptr, log>},
    {"ReduceLogSumExp", reduced<log_sum_exp>},
    {"ReduceMax", reduced<extreme<max, 1>>},
    {"ReduceMean", reduced<mean_of>},
    {"ReduceMin", reduced<extreme<min, -1>>},
    {"ReduceProd", reduced<prod>},
    {"ReduceSum", reduced<sum>},
    {"ReduceSumSquare", reduced<sum, square_of>},
    {"TopK", largest},
};

}  // namespace

std::span<const OperatorEntry> reduction_operators() { return kOperators; }

}  // namespace tutti::onnx
