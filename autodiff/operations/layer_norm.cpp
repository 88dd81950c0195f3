// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/normalization.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/backend/error.h>

#include <algorithm>
#include <limits>

namespace tutti {

namespace {

using elementwise::Domain;

Tensor in_computed_dtype(const Tensor& x) { return cast(x, computed_in(x.dtype())); }

struct RowStatistics {
  Tensor mean;   // undefined unless rows are centred
  Tensor scale;  // 1 / deviation
};

RowStatistics statistics_of(const Tensor& rows, bool centred, double eps) {
  const Tensor mean = centred ? tutti::mean(rows, {1}, true) : Tensor();
  const Tensor squares = tutti::mean(square(centred ? rows - mean : rows), {1}, true);
  return {mean, 1.0 / sqrt(squares + eps)};
}

Tensor normalized_by(const Tensor& rows, const RowStatistics& by) {
  return (by.mean.defined() ? rows - by.mean : rows) * by.scale;
}

// With n = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - n mean(g n)), means over the row; mean(g) only
// where rows are centred. dweight = sum(dy n), dbias = sum(dy), over the rows.
struct RowGradient {
  SavedTensor x;
  SavedTensor weight;  // undefined: none
  RowStatistics statistics;
  bool centred;
  double eps;
  std::size_t weight_at;
  std::size_t bias_at;
  DType weight_dtype;
  DType bias_dtype;

  template <class Restore> void operator()(const Restore& restore, const Tensor& dy, InputGradients& gradients) const {
    const Tensor rows = in_computed_dtype(restore(x));
    // Gradients of gradients pass through the statistics too.
    const Tensor n = normalized_by(rows, grad_enabled() ? statistics_of(rows, centred, eps) : statistics);
    const Tensor upstream = in_computed_dtype(dy);
    if (gradients.wanted(0)) gradients.set(0, cast(of_rows(restore, rows, n, upstream), dy.dtype()));
    if (weight_at > 0 && gradients.wanted(weight_at))
      gradients.set(weight_at, cast(sum(upstream * n, {0}), weight_dtype));
    if (bias_at > 0 && gradients.wanted(bias_at)) gradients.set(bias_at, cast(sum(upstream, {0}), bias_dtype));
  }

 private:
  template <class Restore>
  Tensor of_rows(const Restore& restore, const Tensor& rows, const Tensor& n, const Tensor& dy) const {
    const Tensor g = weight_at > 0 ? dy * cast(restore(weight), rows.dtype()) : dy;
    const Tensor scale = grad_enabled() ? statistics_of(rows, centred, eps).scale : statistics.scale;
    const Tensor along = n * mean(g * n, {1}, true);
    return scale * ((centred ? g - mean(g, {1}, true) : g) - along);
  }
};

Array rows_value(const Tensor& x, const RowStatistics& statistics, const Tensor& weight, const Tensor& bias) {
  const NoGrad off;
  const Tensor rows = in_computed_dtype(x);
  Tensor y = normalized_by(rows, statistics);
  if (weight.defined()) y = y * cast(weight, rows.dtype());
  if (bias.defined()) y = y + cast(bias, rows.dtype());
  return cast(y, x.dtype()).array();
}

// x [rows, length], weight and bias [length] or undefined.
Tensor norm_of_rows(std::string_view name, const Tensor& x, const Tensor& weight, const Tensor& bias, bool centred,
                    double eps) {
  RowStatistics statistics;
  {
    const NoGrad off;
    statistics = statistics_of(in_computed_dtype(x), centred, eps);
  }
  std::vector<Tensor> inputs{x};
  if (bias.defined()) inputs.push_back(bias);
  const std::size_t bias_at = inputs.size() - 1;
  if (weight.defined()) inputs.push_back(weight);
  const std::size_t weight_at = weight.defined() ? inputs.size() - 1 : 0;
  return record(name, rows_value(x, statistics, weight, bias), inputs, [&] {
    return RowGradient{save(x, 0),
                       weight.defined() ? save(weight, static_cast<int>(weight_at)) : SavedTensor{},
                       statistics,
                       centred,
                       eps,
                       weight_at,
                       bias_at,
                       weight.defined() ? weight.dtype() : x.dtype(),
                       bias.defined() ? bias.dtype() : x.dtype()};
  });
}

void require_fit(std::string_view name, std::string_view what, const Tensor& operand, const Shape& expected) {
  if (operand.defined() && operand.shape() != expected)
    raise<ShapeError>("[{}] {} {} should have shape {}", name, what, to_string(operand.shape()), to_string(expected));
}

// Joins the normalised axes, and puts them back.
Tensor norm_of_last_axes(std::string_view name, const Tensor& input, const Shape& normalized, const Tensor& weight,
                         const Tensor& bias, bool centred, double eps) {
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
  return reshape(norm_of_rows(name, rows, flat(weight), flat(bias), centred, eps), x.shape());
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias, double eps) {
  return norm_of_last_axes("layer_norm", x, normalized, weight, bias, true, eps);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, std::optional<double> eps) {
  const double machine =
      x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
  return norm_of_last_axes("rms_norm", x, normalized, weight, {}, false, eps.value_or(machine));
}

Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor x = promote_into(Domain::floating, "group_norm", input);
  if (x.rank() < 2) raise<ShapeError>("[group_norm] needs [n, c, ...], got {}", to_string(x.shape()));
  const std::int64_t channels = x.length(1);
  if (groups <= 0 || channels % groups != 0)
    raise<ShapeError>("[group_norm] {} groups do not divide the channels of {}", groups, to_string(x.shape()));
  require_fit("group_norm", "the weight", weight, {channels});
  require_fit("group_norm", "the bias", bias, {channels});
  const Tensor wide = in_computed_dtype(x);  // rounded once, after weight and bias
  const std::int64_t rows = x.length(0) * groups;
  Tensor y = reshape(
      norm_of_rows("group_norm", reshape(wide, {rows, rows > 0 ? x.size() / rows : 0}), {}, {}, true, eps), x.shape());
  Shape by_channel(x.rank(), 1);
  by_channel[1] = channels;
  if (weight.defined()) y = y * reshape(cast(weight, y.dtype()), by_channel);
  if (bias.defined()) y = y + reshape(cast(bias, y.dtype()), by_channel);
  return cast(y, x.dtype());
}

}  // namespace tutti
