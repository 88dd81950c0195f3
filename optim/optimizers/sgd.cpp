// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/sgd.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/option_checks.h>

namespace tutti {

namespace {

void check_sgd_options(const SgdOptions& options) {
  check_share("Sgd", "momentum", options.momentum);
  if (!(options.dampening >= 0.0 && options.dampening <= 1.0))
    raise("[Sgd] dampening must be in [0, 1], got {}", options.dampening);
  check_not_negative("Sgd", "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0))
    raise("[Sgd] nesterov needs momentum above 0 and dampening 0, got {} and {}", options.momentum, options.dampening);
}

}  // namespace

std::string options_text(const SgdOptions& options) {
  const auto& [momentum, dampening, weight_decay, nesterov] = options;
  return fmt::format("momentum {}, dampening {}, weight_decay {}, nesterov {}", momentum, dampening, weight_decay,
                     nesterov);
}

Sgd::Sgd(const ParameterGroups& groups) : RuleOptimizer(groups, check_sgd_options) {}
Sgd::Sgd(std::vector<Tensor> parameters, double learning_rate, const SgdOptions& options)
    : Sgd(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule Sgd::rule(const SgdOptions& options, double rate, std::int64_t step) const {
  return SgdStep{.rate = rate,
                 .momentum = options.momentum,
                 .dampening = options.dampening,
                 .weight_decay = options.weight_decay,
                 .nesterov = options.nesterov,
                 .first = step == 1};
}

std::string Sgd::refuses_rows(std::size_t group) const {
  const SgdOptions& own = options(group);
  if (own.momentum == 0.0 && own.weight_decay == 0.0) return "";
  return fmt::format(
      "Sgd with momentum {} and weight_decay {} would change all rows; give it to an Sgd without both, or mark it "
      "dense with set_sparse_grad(false)",
      own.momentum, own.weight_decay);
}

// row[i] -= rate * gradient[i], for the rows that the gradient has.
void Sgd::update_rows(std::size_t position, const Array& parameter, const SparseGradient& gradient, ParameterState&) {
  const std::int64_t columns = columns_of(parameter.shape());
  if (gradient.count() == 0 || columns == 0) return;
  require_rows(parameter, gradient);
  const Array rows = widened(gradient.rows).reshape({gradient.count(), columns});
  const Array rate = Array::full({}, -learning_rate(group_of(position)), rows.dtype(), parameter.device());
  const Array change = tutti::apply(elementwise::Multiply{}, rows, rate).cast(parameter.dtype());
  backend_for(parameter.device())
      .scatter(Scatter::add, change, 0, index_of_rows(gradient.indices, columns),
               parameter.reshape({parameter.length(0), columns}));
}

std::vector<std::string> Sgd::state_names(std::size_t group) const {
  if (options(group).momentum == 0.0) return {};
  return {"momentum"};
}

}  // namespace tutti
