// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/scheduler.h>

#include <tutti/backend/error.h>
#include <tutti/optim/steps/option_checks.h>
#include <tutti/optim/steps/state_text.h>

#include <utility>

namespace tutti {

Scheduler::Scheduler(std::vector<double> base_rates, SetRate set_rate, Schedule factor)
    : base_rates_(std::move(base_rates)), set_rate_(std::move(set_rate)), factor_(std::move(factor)) {
  set(rates_at(base_rates_, 0));
}

void Scheduler::set_step(std::int64_t step) {
  set(rates_at(base_rates_, step));
  steps_ = step;
}

std::string Scheduler::to_text() const { return state_text(base_rates_, {steps_}); }

std::function<void()> Scheduler::prepare_load(const std::string& text) {
  StateNumbers state = parse_state_text("Scheduler", text, base_rates_.size(), 1);
  std::vector<double> rates = rates_at(state.numbers, state.counts[0]);
  return [this, state = std::move(state), rates = std::move(rates)] {
    set(rates);
    base_rates_ = state.numbers;
    steps_ = state.counts[0];
  };
}

/// Checked, so that setting them does not fail midway.
std::vector<double> Scheduler::rates_at(const std::vector<double>& base_rates, std::int64_t step) const {
  const double factor = factor_(step);
  check_not_negative("Scheduler", "the schedule's factor", factor);
  std::vector<double> rates;
  for (const double base : base_rates) {
    rates.push_back(base * factor);
    check_not_negative("Scheduler", "a group's learning rate", base);
    check_not_negative("Scheduler", "a group's learning rate", rates.back());
  }
  return rates;
}

void Scheduler::set(const std::vector<double>& rates) {
  for (std::size_t group = 0; group < rates.size(); ++group) set_rate_(group, rates[group]);
}

}  // namespace tutti
