// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/lamb.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/moments.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_lamb_options(const LambOptions& options) { check_moments("Lamb", options); }

Array norm(const Array& array) { return apply(elementwise::Sqrt{}, reduce(Reduction::sum_of_squares, array, {})); }

// On the device: the host waits for nothing.
Array trust_ratio(const Array& parameter, const Array& direction) {
  const Array zero = Array::zeros({}, parameter.dtype(), parameter.device());
  const Array one = Array::full({}, 1, parameter.dtype(), parameter.device());
  const Array length = norm(parameter);
  const Array step = norm(direction);
  const Array ratio = where(apply(elementwise::Equal{}, step, zero), one, apply(elementwise::Divide{}, length, step));
  return where(apply(elementwise::Equal{}, length, zero), one, ratio);
}

void move(const Array& parameter, const Array& direction, double rate, bool adapt) {
  Array factor = Array::full({}, -rate, parameter.dtype(), parameter.device());
  if (adapt) factor = apply(elementwise::Multiply{}, factor, trust_ratio(parameter, direction));
  const Array inputs[] = {parameter, apply(elementwise::Multiply{}, direction, factor)};
  const auto add = elementwise::make_call(elementwise::Add{}, ElementwiseCall::Part::value);
  backend_for(parameter.device()).elementwise(add, inputs, parameter);
}

}  // namespace

std::string options_text(const LambOptions& options) {
  const auto& [beta1, beta2, epsilon, weight_decay, adapt] = options;
  return fmt::format("beta1 {}, beta2 {}, epsilon {}, weight_decay {}, adapt {}", beta1, beta2, epsilon, weight_decay,
                     adapt);
}

Lamb::Lamb(const ParameterGroups& groups) : GroupedOptimizer(groups, check_lamb_options) {}
Lamb::Lamb(std::vector<Tensor> parameters, double learning_rate, const LambOptions& options)
    : Lamb(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

void Lamb::update(std::span<const Update> updates) {
  const LambOptions& options = options_of(updates.front());
  const double rate = rate_of(updates.front());
  const LambDirection rule{.beta1 = options.beta1,
                           .beta2 = options.beta2,
                           .epsilon = options.epsilon,
                           .weight_decay = options.weight_decay,
                           .step = updates.front().state->steps + 1};
  for (const auto& [position, parameter, gradient, state] : updates) {
    if (parameter.size() == 0) continue;
    const Array direction = Array::empty(parameter.shape(), parameter.dtype(), parameter.device());
    const RuleOperands operands{parameter, gradient, {state->arrays[0].second, state->arrays[1].second, direction}};
    backend_for(parameter.device()).optimizer_step(rule, {&operands, 1});
    move(parameter, direction, rate, options.adapt);
  }
}

std::vector<std::string> Lamb::state_names(std::size_t) const { return moment_names(); }

}  // namespace tutti
