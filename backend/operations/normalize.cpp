// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/registry.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::string_view kName = "normalize_rows";

void check_rows(const Array& input) {
  checks::require_defined(kName, input);
  checks::require_floating(kName, input);
  checks::require_rank(kName, "the input", input, 2);
}

// A weight or a bias, in the type that is computed in; or undefined.
void check_columns(std::string_view operand, const Array& input, const Array& columns) {
  if (!columns.defined()) return;
  checks::require_same_device(kName, input, columns);
  checks::require_dtype(kName, columns, computed_in(input.dtype()));
  checks::require_shape(kName, operand, columns, {input.length(1)});
}

void check_statistics(const Array& input, const Array& mean, const Array& scale) {
  for (const Array& each : {mean, scale}) {
    checks::require_same_device(kName, input, each);
    checks::require_dtype(kName, each, computed_in(input.dtype()));
    checks::require_shape(kName, "the statistics", each, {input.length(0), 1});
  }
}

void check_gradient(const Array& input, const Array& gradient) {
  checks::require_alike(kName, input, gradient);
  checks::require_shape(kName, "the gradient", gradient, input.shape());
}

/// Sums over the rows: of parts of them, that run side by side, then of those.
struct ColumnSums {
  Array total;
  Array parts;

  ColumnSums() = default;
  ColumnSums(const Array& rows, const Array& out) {
    const std::int64_t length = rows.length(1);
    const std::int64_t count = std::clamp<std::int64_t>(rows.length(0) / 32, 1, 128);
    total = checks::output(kName, out, {length}, rows.dtype(), rows.device());
    if (rows.size() == 0) total.fill(0);
    parts = count == 1 ? total.reshape({1, length}) : Array::empty({count, length}, rows.dtype(), rows.device());
  }
  void join() const {
    if (!total.defined() || total.size() == 0 || parts.length(0) == 1) return;
    backend_for(total.device()).reduce(Reduction::sum, parts, total.reshape({1, total.size()}));
  }
};

Array contiguous_if_defined(const Array& array) { return array.defined() ? array.contiguous() : array; }

}  // namespace

NormalizedRows normalize_rows(const RowNorm& norm, const Array& input, const Array& weight, const Array& bias) {
  check_rows(input);
  check_columns("the weight", input, weight);
  check_columns("the bias", input, bias);
  const Array wide = widened(input).contiguous();
  const Shape by_row{input.length(0), 1};
  NormalizedRows result{Array::empty(input.shape(), wide.dtype(), wide.device()),
                        Array::empty(by_row, wide.dtype(), wide.device()),
                        Array::empty(by_row, wide.dtype(), wide.device())};
  if (wide.size() > 0)
    backend_for(wide.device())
        .normalize_rows(norm, wide, contiguous_if_defined(weight), contiguous_if_defined(bias), result.output,
                        result.mean, result.scale);
  result.output = result.output.cast(input.dtype());
  return result;
}

Array normalize_rows_gradient(const RowNorm& norm, const Array& input, const Array& weight, const Array& mean,
                              const Array& scale, const Array& gradient) {
  check_rows(input);
  check_columns("the weight", input, weight);
  check_statistics(input, mean, scale);
  check_gradient(input, gradient);
  const Array wide = widened(input).contiguous();
  Array result = Array::empty(input.shape(), wide.dtype(), wide.device());
  if (wide.size() > 0)
    backend_for(wide.device())
        .normalize_rows_gradient(norm, wide, contiguous_if_defined(weight), mean.contiguous(), scale.contiguous(),
                                 widened(gradient).contiguous(), result);
  return result.cast(input.dtype());
}

ColumnGradients normalize_rows_column_gradients(const Array& input, const Array& mean, const Array& scale,
                                                const Array& gradient, bool with_bias, const Array& weight_out,
                                                const Array& bias_out) {
  check_rows(input);
  check_statistics(input, mean, scale);
  check_gradient(input, gradient);
  const Array wide = widened(input).contiguous();
  const ColumnSums weight(wide, weight_out);
  const ColumnSums bias = with_bias ? ColumnSums(wide, bias_out) : ColumnSums();
  if (wide.size() > 0)
    backend_for(wide.device())
        .normalize_rows_sums(wide, mean.contiguous(), scale.contiguous(), widened(gradient).contiguous(), weight.parts,
                             bias.parts);
  weight.join();
  bias.join();
  return {weight.total, bias.total};
}

}  // namespace tutti
