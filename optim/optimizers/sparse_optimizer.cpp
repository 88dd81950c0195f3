// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/sparse_optimizer.h>

#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {
namespace {

std::vector<Tensor> weights_of(const NamedTables& tables) {
  std::vector<Tensor> weights;
  for (const auto& [name, table] : tables) weights.push_back(table->weight());
  return weights;
}

}  // namespace

SparseOptimizer::SparseOptimizer(const NamedTables& tables, double learning_rate, RowState state)
    : Optimizer(weights_of(tables), learning_rate), tables_(tables), row_state_(std::move(state)) {}

void SparseOptimizer::accept_tables() {
  State counts = state();
  for (ParameterState& table : counts.parameters) table.steps = 0;
  load_state(counts);
}

void SparseOptimizer::update_rows(std::size_t position, const Array&, const SparseGradient& by_id,
                                  ParameterState& state) {
  const auto& [name, table] = tables_[position];
  if (state.steps == 0) state.steps = table->updates();  // of the optimizers before this one
  if (table->updates() != state.steps)
    raise(
        "[optimizer.step] table \"{}\" on {} has {} updates behind it, by this optimizer's count {}: one of them was "
        "loaded without the other, or the device rejoined its group, to which the optimizer is not attached; load "
        "both, from one device",
        name, to_string(table->device()), table->updates(), state.steps);
  const SparseGradient by_row = table->admit(by_id, row_state_);
  table->rows().count_write("optimizer.step");
  step_rows(rule(learning_rate(), table->updates()), table->rows(), by_row, {.arrays = table->state()});
}

SparseAdagrad::SparseAdagrad(const NamedTables& tables, double learning_rate, const AdagradOptions& options)
    : SparseOptimizer(tables, learning_rate, {{"sum"}, options.initial_accumulator_value}), options_(options) {
  check_options(options);
}

SparseAdamW::SparseAdamW(const NamedTables& tables, double learning_rate, const AdamWOptions& options)
    : SparseOptimizer(tables, learning_rate, {{"mean", "square"}}), options_(options) {
  check_options(options);
}

}  // namespace tutti
