// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tutti {

namespace {

using elementwise::Domain;

// What a row is normalised with, as operations that are recorded.
struct RowStatistics {
  Tensor mean;
  Tensor scale;
};

RowStatistics statistics_of(const Tensor& rows, const RowNorm& norm) {
  const Tensor mean = norm.centred ? tutti::mean(rows, {1}, true) : Tensor(0.0);
  return {mean, 1.0 / sqrt(tutti::mean(square(rows - mean), {1}, true) + norm.epsilon)};
}

// With n = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - n mean(g n)), means over the row; mean(g) only
// where rows are centred. dweight = sum(dy n), dbias = sum(dy), over the rows. By kernels, or composed when recorded.
struct RowGradient {
  RowNorm norm;
  SavedTensor x;
  SavedTensor weight;  // its value undefined: none
  Array mean;
  Array scale;
  std::size_t bias_at;    // 0: none
  std::size_t weight_at;  // 0: none
  DType bias_dtype;

  template <class Restore> void operator()(const Restore& restore, const Tensor& dy, InputGradients& gradients) const {
    const Tensor rows = restore(x);
    const Tensor factor = weight_at > 0 ? widened(restore(weight)) : Tensor();
    if (grad_enabled())
      compose(widened(rows), factor, widened(dy), gradients);
    else
      run(rows.array(), factor.defined() ? factor.array() : Array(), dy, gradients);
  }

 private:
  bool wants(const InputGradients& gradients, std::size_t at) const { return at > 0 && gradients.wanted(at); }

  void compose(const Tensor& rows, const Tensor& factor, const Tensor& dy, InputGradients& gradients) const {
    const RowStatistics by = statistics_of(rows, norm);
    const Tensor n = (rows - by.mean) * by.scale;
    const Tensor g = factor.defined() ? dy * factor : dy;
    const Tensor level = norm.centred ? g - tutti::mean(g, {1}, true) : g;
    gradients.set(0, cast(by.scale * (level - n * tutti::mean(g * n, {1}, true)), x.value.dtype()));
    if (wants(gradients, weight_at)) gradients.set(weight_at, cast(sum(dy * n, {0}), weight.value.dtype()));
    if (wants(gradients, bias_at)) gradients.set(bias_at, cast(sum(dy, {0}), bias_dtype));
  }

  void run(const Array& rows, const Array& factor, const Tensor& dy, InputGradients& gradients) const {
    if (gradients.wanted(0))
      gradients.set(0, Tensor(normalize_rows_gradient(norm, rows, factor, mean, scale, dy.array())));
    const bool wants_bias = wants(gradients, bias_at);
    if (!wants(gradients, weight_at)) {
      if (wants_bias) gradients.set(bias_at, cast(sum(widened(dy), {0}), bias_dtype));
      return;
    }
    // Written where the gradient is to end, unless it has to be narrowed.
    const auto destination = [&](std::size_t at, DType dtype) {
      return dtype == mean.dtype() ? gradients.destination(at) : Array();
    };
    const ColumnGradients columns = normalize_rows_column_gradients(
        rows, mean, scale, dy.array(), wants_bias, destination(weight_at, weight.value.dtype()),
        wants_bias ? destination(bias_at, bias_dtype) : Array());
    gradients.set(weight_at, Tensor(columns.weight.cast(weight.value.dtype())));
    if (wants_bias) gradients.set(bias_at, Tensor(columns.bias.cast(bias_dtype)));
  }
};

// x [rows, length], weight and bias [length] or undefined.
Tensor norm_of_rows(std::string_view name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const RowNorm& norm) {
  // The bias before the weight: gradients are then final in the reverse order of a layer's parameters, as everywhere.
  CachedVector<Tensor> inputs{x};
  if (bias.defined()) inputs.push_back(bias);
  if (weight.defined()) inputs.push_back(weight);
  const std::size_t weight_at = weight.defined() ? inputs.size() - 1 : 0;
  const auto wide = [&](const Tensor& operand) {
    return operand.defined() ? operand.array().cast(computed_in(x.dtype())) : Array();
  };
  NormalizedRows result = normalize_rows(norm, x.array(), wide(weight), wide(bias));
  return record(name, std::move(result.output), inputs, [&] {
    return RowGradient{norm,
                       save(x, 0),
                       weight.defined() ? save(weight, static_cast<int>(weight_at)) : SavedTensor{},
                       result.mean,
                       result.scale,
                       std::size_t{bias.defined() ? 1U : 0U},
                       weight_at,
                       bias.defined() ? bias.dtype() : x.dtype()};
  });
}

void require_fit(std::string_view name, std::string_view what, const Tensor& operand, const Shape& expected) {
  if (operand.defined() && operand.shape() != expected)
    raise<ShapeError>("[{}] {} {} should have shape {}", name, what, to_string(operand.shape()), to_string(expected));
}

// Joins the normalised axes, and puts them back.
Tensor norm_of_last_axes(std::string_view name, const Tensor& input, const Shape& normalized, const Tensor& weight,
                         const Tensor& bias, const RowNorm& norm) {
  const Tensor x = promote_into(Domain::floating, name, input);
  if (normalized.empty() || normalized.size() > x.rank() ||
      !std::equal(normalized.begin(), normalized.end(), x.shape().end() - normalized.size()))
    raise<ShapeError>("[{}] {} does not end in the normalised lengths {}", name, to_string(x.shape()),
                      to_string(normalized));
  require_fit(name, "the weight", weight, normalized);
  require_fit(name, "the bias", bias, normalized);
  const std::int64_t length = element_count(normalized);
  const Tensor rows = reshape(x, {length > 0 ? x.size() / length : 0, length});
  const auto flat = [&](const Tensor& operand) { return operand.defined() ? reshape(operand, {length}) : operand; };
  return reshape(norm_of_rows(name, rows, flat(weight), flat(bias), norm), x.shape());
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias, double eps) {
  const OperationScope scope("layer_norm", x, weight, bias);
  return norm_of_last_axes("layer_norm", x, normalized, weight, bias, {.epsilon = eps});
}

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, std::optional<double> eps) {
  const OperationScope scope("rms_norm", x, weight);
  const double machine =
      x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
  return norm_of_last_axes("rms_norm", x, normalized, weight, {}, {.centred = false, .epsilon = eps.value_or(machine)});
}

Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const OperationScope scope("group_norm", input, weight, bias);
  const Tensor x = promote_into(Domain::floating, "group_norm", input);
  if (x.rank() < 2) raise<ShapeError>("[group_norm] needs [n, c, ...], got {}", to_string(x.shape()));
  const std::int64_t channels = x.length(1);
  if (groups <= 0 || channels % groups != 0)
    raise<ShapeError>("[group_norm] {} groups do not divide the channels of {}", groups, to_string(x.shape()));
  require_fit("group_norm", "the weight", weight, {channels});
  require_fit("group_norm", "the bias", bias, {channels});
  const Tensor wide = widened(x);  // rounded once, after weight and bias
  const std::int64_t rows = (CheckedSize(x.length(0)) * groups).get("group_norm", "{} groups of {}", groups, x.shape());
  Tensor y = reshape(
      norm_of_rows("group_norm", reshape(wide, {rows, rows > 0 ? x.size() / rows : 0}), {}, {}, {.epsilon = eps}),
      x.shape());
  Shape by_channel(x.rank(), 1);
  by_channel[1] = channels;
  if (weight.defined()) y = y * reshape(cast(weight, y.dtype()), by_channel);
  if (bias.defined()) y = y + reshape(cast(bias, y.dtype()), by_channel);
  return cast(y, x.dtype());
}

}  // namespace tutti
