// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/formulas/optimizer_rules.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/parameter_groups.h>

#include <string>
#include <string_view>

namespace tutti {

/// A parameter with the arrays of its state, as Backend::optimizer_step takes them.
RuleOperands rule_operands(const Array& parameter, const Array& gradient, const Optimizer::ParameterState&);

/// Throws Error for a gradient of rows that the table has not itself: of a HashTable, whose optimizer is a sparse one.
void require_rows(const Array& table, const SparseGradient&);

/// Steps the rows that the gradient has, with their state, and leaves the others alone.
void step_rows(const OptimizerRule&, const Array& parameter, const SparseGradient&, const Optimizer::ParameterState&);

/// The answer of `refuses_rows` where weight decay alone would change all rows: empty without.
std::string refuses_decay_of_rows(std::string_view optimizer, double weight_decay);

/// An optimizer that is one of the backends' rules.
template <class Options> class RuleOptimizer : public GroupedOptimizer<Options> {
 protected:
  using typename Optimizer::Update;
  using GroupedOptimizer<Options>::GroupedOptimizer;

  /// `step` counts a parameter's own steps, from 1.
  virtual OptimizerRule rule(const Options&, double rate, std::int64_t step) const = 0;
  /// The rule for the rows of a sparse gradient.
  virtual OptimizerRule row_rule(const Options& options, double rate, std::int64_t step) const {
    return rule(options, rate, step);
  }

  void update(std::span<const Update> updates) override {
    const Update& first = updates.front();
    CachedVector<RuleOperands> operands;
    operands.reserve(updates.size());
    for (const auto& [position, parameter, gradient, state] : updates)
      operands.push_back(rule_operands(parameter, gradient, *state));
    backend_for(first.parameter.device())
        .optimizer_step(rule(this->options_of(first), this->rate_of(first), first.state->steps + 1), operands);
  }

  void update_rows(std::size_t position, const Array& parameter, const SparseGradient& gradient,
                   Optimizer::ParameterState& state) override {
    const std::size_t group = this->group_of(position);
    step_rows(row_rule(this->options(group), this->learning_rate(group), state.steps + 1), parameter, gradient, state);
  }
};

}  // namespace tutti
