// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/formulas/recurrent_formulas.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <numeric>

namespace tutti {
namespace {

constexpr std::string_view kStepsName = "recurrent_steps";

/// What the gates say of shapes.
struct Form {
  std::int64_t gates;
  std::int64_t kept;
  bool has_cell;
  bool has_own_products;  // the gradient of a product is another than the input part's

  explicit Form(RecurrentGates kind) {
    checks::require_enumerator(kStepsName, "RecurrentGates", kind, RecurrentGates::gru);
    recurrent_formulas::visit(kind, [&]<class Step>(Step) {
      gates = Step::kGates;
      kept = Step::kKept;
      has_cell = Step::kHasCell;
    });
    has_own_products = kind == RecurrentGates::gru;
  }
};

bool has_kernel(const Array& hidden) { return backend_for(hidden.device()).has_fused(FusedKernel::recurrent_steps); }

/// True where products are of bf16 and all else is f32.
bool is_mixed(const RecurrentOperands& operands) {
  const Array& weight = operands.hidden_weight;
  return weight.defined() && weight.dtype() == DType::bf16 && operands.hidden.dtype() == DType::f32 &&
         weight.device() == operands.hidden.device() && has_kernel(operands.hidden) &&
         backend_for(weight.device()).takes_narrow(FusedKernel::recurrent_steps, weight.dtype());
}

void check(const RecurrentSteps& steps, const RecurrentOperands& operands) {
  const Form form(steps.gates);
  checks::require_defined(kStepsName, operands.hidden);
  checks::require_floating(kStepsName, operands.hidden);
  if (is_narrow(operands.hidden.dtype()))
    raise<DTypeError>("[{}] {}: f32 and f64 alone have this", kStepsName, checks::describe(operands.hidden));
  checks::require_rank(kStepsName, "the hidden state", operands.hidden, 2);
  const std::int64_t batch = operands.hidden.length(0);
  const std::int64_t hidden = operands.hidden.length(1);
  const auto require = [&](std::string_view what, const Array& array, const Shape& shape) {
    checks::require_alike(kStepsName, operands.hidden, array);
    checks::require_shape(kStepsName, what, array, shape);
  };
  require("the input's part", operands.input_part, {steps.rows(), form.gates * hidden});
  if (is_mixed(operands))
    checks::require_shape(kStepsName, "the weight", operands.hidden_weight, {form.gates * hidden, hidden});
  else
    require("the weight", operands.hidden_weight, {form.gates * hidden, hidden});
  if (form.has_cell) require("the cell state", operands.cell, {batch, hidden});
  if (operands.hidden_bias.defined()) require("the bias", operands.hidden_bias, {form.gates * hidden});
  if (!std::ranges::is_sorted(steps.counts, std::greater()) ||
      (!steps.counts.empty() && (steps.counts.front() > batch || steps.counts.back() < 0)))
    raise<ShapeError>("[{}] counts of sequences, of {}, must descend", kStepsName, batch);
}

Array rows(const Array& array, std::int64_t begin, std::int64_t count) {
  return array.defined() ? array.slice(0, begin, begin + count) : array;
}

/// The weight as each step's product takes it, without a copy in each.
Array matrix(const Array& weight) {
  return weight.is_contiguous() || weight.transpose().is_contiguous() ? weight : weight.copy();
}

/// The gradient by a kernel and a product for each step.
void step_back(const RecurrentSteps& steps, bool to_hidden, const Array& weight, const RecurrentRun& run,
               const Array& gradient, const Array& own_products, const RecurrentOperands& result) {
  const Array& products = own_products.defined() ? own_products : result.input_part;
  const Array passed =
      own_products.defined() ? Array::empty(result.hidden.shape(), gradient.dtype(), gradient.device()) : Array();
  Backend& backend = backend_for(gradient.device());
  std::int64_t left = steps.rows();
  steps.for_each(true, [&](std::int64_t row, std::int64_t count) {
    const Array hidden = rows(result.hidden, 0, count);
    backend.recurrent_step_gradient(steps.gates, rows(run.kept, row, count), rows(run.hidden_before, row, count),
                                    rows(run.cell_before, row, count), rows(gradient, row, count),
                                    rows(result.input_part, row, count), rows(own_products, row, count), hidden,
                                    rows(result.cell, 0, count));
    left -= count;
    if (left == 0 && !to_hidden) return;
    if (!own_products.defined()) {  // all of the gradient comes by the product
      matmul(rows(products, row, count), weight, hidden);
      return;
    }
    const Array by_product = rows(passed, 0, count);
    matmul(rows(products, row, count), weight, by_product);
    const Array terms[] = {hidden, by_product};
    backend.elementwise(elementwise::make_call(elementwise::Add{}, ElementwiseCall::Part::value), terms, hidden);
  });
}

}  // namespace

void Backend::recurrent_steps(const RecurrentSteps&, const Array&, const Array&, const Array&, const Array&,
                              const Array&, const Array&, const Array&, const Array&, const Array&) {
  raise<DeviceError>("[recurrent_steps] this kind of device has no kernel for it");
}

void Backend::recurrent_steps_gradient(const RecurrentSteps&, bool, const Array&, const Array&, const Array&,
                                       const Array&, const Array&, const Array&, const Array&, const Array&,
                                       const Array&) {
  raise<DeviceError>("[recurrent_steps_gradient] this kind of device has no kernel for it");
}

std::int64_t RecurrentSteps::rows() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

RecurrentRun recurrent_steps(const RecurrentSteps& steps, const RecurrentOperands& operands, bool keeps) {
  check(steps, operands);
  const Form form(steps.gates);
  const std::int64_t batch = operands.hidden.length(0);
  const std::int64_t length = operands.hidden.length(1);
  const std::int64_t all = steps.rows();
  const auto made = [&](std::int64_t count, std::int64_t columns) {
    return Array::empty({count, columns}, operands.hidden.dtype(), operands.hidden.device());
  };
  RecurrentRun run;
  run.output = made(all + (form.has_cell ? 2 : 1) * batch, length);
  if (keeps) {
    run.kept = made(all, form.kept * length);
    run.hidden_before = made(all, length);
    if (form.has_cell) run.cell_before = made(all, length);
  }
  Array hidden = rows(run.output, all, batch);
  hidden.copy_from(operands.hidden);
  Array cell = form.has_cell ? rows(run.output, all + batch, batch) : Array();
  if (form.has_cell) cell.copy_from(operands.cell);
  const Array input = operands.input_part.contiguous();
  const Array bias = operands.hidden_bias.defined() ? operands.hidden_bias.contiguous() : Array();
  const Array weight = matrix(operands.hidden_weight);
  if (all == 0 || length == 0) return run;
  Backend& backend = backend_for(run.output.device());
  if (has_kernel(hidden)) {
    backend.recurrent_steps(steps, input, weight, bias, hidden, cell, rows(run.output, 0, all), run.kept,
                            run.hidden_before, run.cell_before);
    return run;
  }
  const Array products = made(batch, form.gates * length);
  steps.for_each(false, [&](std::int64_t row, std::int64_t count) {
    const Array state = rows(hidden, 0, count);
    const Array product = rows(products, 0, count);
    matmul(state, weight.transpose(), product);
    backend.recurrent_step(steps.gates, rows(input, row, count), product, bias, state, rows(cell, 0, count),
                           rows(run.output, row, count), rows(run.kept, row, count),
                           rows(run.hidden_before, row, count), rows(run.cell_before, row, count));
  });
  return run;
}

RecurrentOperands recurrent_steps_gradient(const RecurrentSteps& steps, const RecurrentOperands& operands,
                                           const RecurrentRun& run, const Array& gradient,
                                           const RecurrentWanted& wanted, const Array& weight_out) {
  check(steps, operands);
  const Form form(steps.gates);
  const std::int64_t batch = operands.hidden.length(0);
  const std::int64_t length = operands.hidden.length(1);
  const std::int64_t all = steps.rows();
  const auto require = [&](std::string_view what, const Array& array, std::int64_t count, std::int64_t columns) {
    checks::require_alike(kStepsName, operands.hidden, array);
    checks::require_shape(kStepsName, what, array, {count, columns});
  };
  require("the gradient", gradient, all + (form.has_cell ? 2 : 1) * batch, length);
  require("what the run kept", run.kept, all, form.kept * length);
  require("the hidden states before", run.hidden_before, all, length);
  if (form.has_cell) require("the cells before", run.cell_before, all, length);
  const auto made = [&](std::int64_t count, std::int64_t columns) {
    return Array::empty({count, columns}, gradient.dtype(), gradient.device());
  };
  RecurrentOperands result;
  result.hidden = rows(gradient, all, batch).copy();
  if (form.has_cell) result.cell = rows(gradient, all + batch, batch).copy();
  result.input_part = made(all, form.gates * length);
  const Array own_products = form.has_own_products ? made(all, form.gates * length) : Array();
  const Array& products = form.has_own_products ? own_products : result.input_part;
  const Array given = gradient.contiguous();
  const Array weight = matrix(operands.hidden_weight);
  if (all > 0 && length > 0 && has_kernel(gradient))
    backend_for(gradient.device())
        .recurrent_steps_gradient(steps, wanted.hidden, weight, run.kept, run.hidden_before, run.cell_before,
                                  rows(given, 0, all), result.input_part, own_products, result.hidden, result.cell);
  else if (all > 0 && length > 0)
    step_back(steps, wanted.hidden, weight, run, given, own_products, result);
  if (wanted.hidden_weight) {
    const DType dtype = weight.dtype();
    result.hidden_weight = matmul(products.cast(dtype).transpose(), run.hidden_before.cast(dtype), weight_out);
  }
  const std::int64_t by_rows[] = {0};
  if (operands.hidden_bias.defined() && wanted.hidden_bias) result.hidden_bias = sum(products, by_rows);
  return result;
}

}  // namespace tutti
