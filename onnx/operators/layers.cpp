// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

/// Refuses integers, whose products are made in f32 here.
void check_floating(const Call& call) {
  for (const Tensor& each : call.all())
    if (each.defined() && !is_floating(each.dtype())) call.refuse("products of integers");
}

Tensors matrix_product(const Call& call) {
  check_floating(call);
  return {matmul(call.in(0), call.in(1))};
}

Tensors general_product(const Call& call) {
  check_floating(call);
  const Tensor a = call.integer("transA", 0) != 0 ? transpose(call.in(0)) : call.in(0);
  const bool is_transposed = call.integer("transB", 0) != 0;
  const double alpha = call.number("alpha", 1.0);
  const double beta = call.number("beta", 1.0);
  const bool has_sum = call.has(2) && beta != 0.0;
  // A layer's: bias and product in one pass.
  if (is_transposed && alpha == 1.0 &&
      (!has_sum || (beta == 1.0 && call.in(2).dim() == 1 && call.in(2).size() == call.in(1).length(0))))
    return {linear(a, call.in(1), has_sum ? call.in(2) : Tensor())};
  Tensor y = matmul(a, is_transposed ? transpose(call.in(1)) : call.in(1));
  if (alpha != 1.0) y = y * scalar_like(y, alpha);
  if (has_sum) y = y + (beta == 1.0 ? call.in(2) : call.in(2) * scalar_like(call.in(2), beta));
  return {y};
}

Shape lengths_from(const Tensor& x, std::int64_t axis) {
  Shape lengths;
  for (std::int64_t i = axis < 0 ? axis + x.dim() : axis; i < x.dim(); ++i) lengths.push_back(x.length(i));
  return lengths;
}

Tensors layer_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = call.integer("axis", -1);
  const double eps = call.number("epsilon", 1e-5);
  if (call.integer("stash_type", 1) != 1) call.refuse("statistics of another type than f32");
  const Shape lengths = lengths_from(x, axis);
  const auto fitted = [&](std::size_t input) {
    return call.has(input) ? broadcast_to(call.in(input), lengths) : Tensor();
  };
  Tensors results{layer_norm(x, lengths, fitted(1), fitted(2), eps)};
  if (call.wants(1) || call.wants(2)) {
    Integers axes;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(lengths.size()); ++i) axes.push_back(-1 - i);
    const Tensor wide = cast(x, DType::f32);
    const Tensor average = mean(wide, Axes(axes), true);
    const Tensor variance = var(wide, Axes(axes), 0, true);
    results.push_back(average);
    results.push_back(reciprocal(sqrt(variance + scalar_like(variance, eps))));
  }
  return results;
}

Tensors rms_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  const Shape lengths = lengths_from(x, call.integer("axis", -1));
  (void)call.integer("stash_type", 1);
  return {rms_norm(x, lengths, broadcast_to(call.in(1), lengths), call.number("epsilon", 1e-5))};
}

Tensors batch_normalized(const Call& call) {
  if (call.integer("training_mode", 0) != 0 || (call.opset() < 14 && call.outputs() > 1))
    call.refuse("batch statistics, of training");
  (void)call.number("momentum", 0.9);
  if (call.integer("spatial", 1) != 1) call.refuse("statistics of each element");
  // Statistics as they are, in a computation that writes none.
  const Tensor& x = call.in(0);
  Shape channels(x.rank(), 1);
  if (x.rank() > 1) channels[1] = x.length(1);
  const auto along = [&](std::size_t input) { return reshape(call.in(input), channels); };
  const Tensor deviation = sqrt(along(4) + scalar_like(call.in(4), call.number("epsilon", 1e-5)));
  return {cast((x - along(3)) * (along(1) / deviation) + along(2), x.dtype())};
}

Tensors instance_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  return {group_norm(x, x.length(1), call.in(1), call.in(2), call.number("epsilon", 1e-5))};
}

Tensors group_normalized(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t groups = call.integer("num_groups", 1);
  (void)call.integer("stash_type", 1);
  if (groups < 1 || x.dim() < 2 || x.length(1) % groups != 0) call.refuse("num_groups does not divide the channels");
  const auto by_channel = [&](std::size_t input) {
    const Tensor& values = call.in(input);  // before opset 21 one of each group
    return values.size() == x.length(1) ? values : repeat_interleave(values, x.length(1) / groups, 0);
  };
  return {group_norm(x, groups, by_channel(1), by_channel(2), call.number("epsilon", 1e-5))};
}

Tensors einstein(const Call& call) {
  check_floating(call);
  return {einsum(call.text("equation", ""), call.all())};
}

constexpr OperatorEntry kOperators[] = {
    {"BatchNormalization", batch_normalized},
    {"Det", [](const Call& call) -> Tensors { return {determinant(call.in(0))}; }},
    {"Einsum", einstein},
    {"Gemm", general_product},
    {"GroupNormalization", group_normalized},
    {"InstanceNormalization", instance_normalized},
    {"LayerNormalization", layer_normalized},
    {"MatMul", matrix_product},
    {"RMSNormalization", rms_normalized},
};

}  // namespace

std::span<const OperatorEntry> layer_operators() { return kOperators; }

}  // namespace tutti::onnx
