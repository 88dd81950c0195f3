// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tables/hash_table.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/steps/rule_optimizer.h>

#include <vector>

namespace tutti {

/// Steps hash tables, beside an optimizer for all dense parameters: each step makes rows for new ids, evicts, and
/// changes the rows that the gradient has, with their state; all others stay as they are (a lazy optimizer). The state
/// lies in the tables, by row: it grows, is evicted, saved and loaded with them, and `state()` has counts of steps
/// only. As in torch.optim.SparseAdam, a step's number is the table's, not the row's own. Otherwise an Optimizer like
/// any other: learning rates, schedules, GradientSync.
class SparseOptimizer : public Optimizer {
 public:
  /// Counts from where the tables are now: they were loaded by intent, all replicas' alike, from another run.
  void accept_tables();

 protected:
  /// `tables`: sparse_parameters(model). Error if there are none.
  SparseOptimizer(const NamedTables& tables, double learning_rate, RowState);

  virtual OptimizerRule rule(double rate, std::int64_t step) const = 0;

  void update(std::span<const Update>) override {}  // its parameters have sparse gradients only
  std::string refuses_rows(std::size_t) const override { return ""; }
  /// Error naming the table if it has not as many updates behind it as this optimizer counts, from where it found the
  /// table: one was loaded without the other, or the device got another one's table by rejoining its group, to which
  /// the optimizer is not attached.
  void update_rows(std::size_t position, const Array&, const SparseGradient&, ParameterState&) override;
  std::vector<std::string> state_names(std::size_t) const override { return {}; }

 private:
  NamedTables tables_;
  RowState row_state_;
};

/// row -= rate gradient.
class SparseSgd : public SparseOptimizer {
 public:
  SparseSgd(const NamedTables& tables, double learning_rate) : SparseOptimizer(tables, learning_rate, {}) {}
  std::string kind() const override { return "SparseSgd"; }

 protected:
  OptimizerRule rule(double rate, std::int64_t) const override { return SgdStep{.rate = rate}; }
};

/// AdagradStep. weight_decay reaches the rows that a step changes, then only.
class SparseAdagrad : public SparseOptimizer {
 public:
  /// Throws Error for an option outside its range.
  SparseAdagrad(const NamedTables& tables, double learning_rate, const AdagradOptions& = {});
  std::string kind() const override { return "SparseAdagrad"; }
  std::string options_of_groups() const override { return options_text(options_); }

 protected:
  OptimizerRule rule(double rate, std::int64_t step) const override { return rule_of(options_, rate, step); }

 private:
  AdagradOptions options_;
};

/// AdamWStep, with SparseAdam's epsilon (options_of_rows). weight_decay reaches the rows that a step changes, then
/// only.
class SparseAdamW : public SparseOptimizer {
 public:
  /// Throws Error for an option outside its range.
  SparseAdamW(const NamedTables& tables, double learning_rate, const AdamWOptions& = {});
  std::string kind() const override { return "SparseAdamW"; }
  std::string options_of_groups() const override { return options_text(options_); }

 protected:
  OptimizerRule rule(double rate, std::int64_t step) const override { return row_rule_of(options_, rate, step); }

 private:
  AdamWOptions options_;
};

}  // namespace tutti
