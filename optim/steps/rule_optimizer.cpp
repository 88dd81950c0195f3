// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/rule_optimizer.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

/// table[index] = rows. The old values are taken away first, which leaves exact zeros for the new ones.
void write_rows(const Array& table, const Array& index, const Array& old_rows, const Array& rows) {
  Backend& backend = backend_for(table.device());
  backend.scatter(Scatter::add, apply(elementwise::Negate{}, old_rows), 0, index, table);
  backend.scatter(Scatter::add, rows.cast(table.dtype()), 0, index, table);
}

}  // namespace

RuleOperands rule_operands(const Array& parameter, const Array& gradient, const Optimizer::ParameterState& state) {
  RuleOperands operands{parameter, gradient, {}};
  for (std::size_t s = 0; s < state.arrays.size(); ++s) operands.state[s] = state.arrays[s].second;
  return operands;
}

std::string refuses_decay_of_rows(std::string_view optimizer, double weight_decay) {
  if (weight_decay == 0.0) return "";
  return fmt::format(
      "{} with weight_decay {} would change all rows; give it to a group without, or mark it dense with "
      "set_sparse_grad(false)",
      optimizer, weight_decay);
}

void require_rows(const Array& table, const SparseGradient& gradient) {
  if (table.length(0) == 0 && gradient.count() > 0)
    raise(
        "[optimizer.step] a gradient of {} rows for a table {}, which stands for a hash table: give that to a sparse "
        "optimizer (sparse_parameters), and only dense_parameters to this one",
        gradient.count(), to_string(table.shape()));
}

void step_rows(const OptimizerRule& rule, const Array& parameter, const SparseGradient& gradient,
               const Optimizer::ParameterState& state) {
  const std::int64_t columns = columns_of(parameter.shape());
  if (gradient.count() == 0 || columns == 0) return;
  require_rows(parameter, gradient);
  const Array index = index_of_rows(gradient.indices, columns);
  const auto table_of = [&](const Array& array) { return array.reshape({parameter.length(0), columns}); };
  const auto rows_of = [&](const Array& array) { return gather(table_of(array), 0, index); };

  const Array old_parameter = rows_of(parameter);
  const Array start = is_narrow(old_parameter) ? widened(old_parameter) : old_parameter.copy();
  RuleOperands rows{start, widened(gradient.rows).reshape({gradient.count(), columns}), {}};
  std::vector<Array> old_state;
  for (std::size_t s = 0; s < state.arrays.size(); ++s) {
    old_state.push_back(rows_of(state.arrays[s].second));
    rows.state[s] = old_state[s].copy();
  }
  backend_for(parameter.device()).optimizer_step(rule, {&rows, 1});
  write_rows(table_of(parameter), index, old_parameter, rows.parameter);
  for (std::size_t s = 0; s < old_state.size(); ++s)
    write_rows(table_of(state.arrays[s].second), index, old_state[s], rows.state[s]);
}

}  // namespace tutti
