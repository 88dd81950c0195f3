// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/schedule.h>

#include <tutti/backend/raise.h>
#include <tutti/optim/steps/option_checks.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

void check_rate(double rate) { check_not_negative("schedule", "the learning rate", rate); }

void check_steps(std::string_view schedule, std::int64_t steps) {
  if (steps < 1) raise("[schedule] {} needs at least one step, got {}", schedule, steps);
}

void check_ascending(const std::vector<std::int64_t>& milestones) {
  if (!milestones.empty() && milestones.front() < 0)
    raise("[schedule] milestones count steps, got {}", milestones.front());
  for (std::size_t i = 1; i < milestones.size(); ++i)
    if (milestones[i] < milestones[i - 1])
      raise("[schedule] milestones must ascend, got {} after {}", milestones[i], milestones[i - 1]);
}

double between(double from, double to, double share) { return from + (to - from) * share; }
double half_cosine(double from, double to, double share) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
}

/// How many milestones a step has reached.
std::size_t reached(const std::vector<std::int64_t>& milestones, std::int64_t step) {
  return static_cast<std::size_t>(std::ranges::upper_bound(milestones, step) - milestones.begin());
}

}  // namespace

Schedule::Schedule(Rate rate) : rate_(std::move(rate)) {
  if (!rate_) raise("[schedule] there is no function to ask for the learning rate");
}

double Schedule::operator()(std::int64_t step) const {
  if (step < 0) raise("[schedule] steps count from 0, got {}", step);
  return rate_(step);
}

Schedule Schedule::constant(double rate) {
  check_rate(rate);
  return Schedule([=](std::int64_t) { return rate; });
}

Schedule Schedule::step(double rate, std::int64_t every, double gamma) {
  check_rate(rate);
  check_steps("step", every);
  check_positive("schedule", "gamma", gamma);
  return Schedule([=](std::int64_t step) { return rate * std::pow(gamma, static_cast<double>(step / every)); });
}

Schedule Schedule::multi_step(double rate, std::vector<std::int64_t> milestones, double gamma) {
  check_rate(rate);
  check_ascending(milestones);
  check_positive("schedule", "gamma", gamma);
  return Schedule([=, milestones = std::move(milestones)](std::int64_t step) {
    return rate * std::pow(gamma, static_cast<double>(reached(milestones, step)));
  });
}

Schedule Schedule::linear(double from, double to, std::int64_t steps) {
  check_rate(from);
  check_rate(to);
  check_steps("linear", steps);
  return Schedule([=](std::int64_t step) {
    return step >= steps ? to : between(from, to, static_cast<double>(step) / static_cast<double>(steps));
  });
}

Schedule Schedule::exponential(double rate, double gamma) {
  check_rate(rate);
  check_positive("schedule", "gamma", gamma);
  return Schedule([=](std::int64_t step) { return rate * std::pow(gamma, static_cast<double>(step)); });
}

Schedule Schedule::polynomial(double rate, std::int64_t steps, double power) {
  check_rate(rate);
  check_steps("polynomial", steps);
  check_positive("schedule", "power", power);
  return Schedule([=](std::int64_t step) {
    if (step >= steps) return 0.0;
    return rate * std::pow(1.0 - static_cast<double>(step) / static_cast<double>(steps), power);
  });
}

Schedule Schedule::cosine(double rate, std::int64_t steps, double lowest) {
  check_rate(rate);
  check_rate(lowest);
  check_steps("cosine", steps);
  return Schedule([=](std::int64_t step) {
    return half_cosine(rate, lowest, static_cast<double>(step) / static_cast<double>(steps));
  });
}

Schedule Schedule::cosine_restarts(double rate, std::int64_t steps, std::int64_t factor, double lowest) {
  check_rate(rate);
  check_rate(lowest);
  check_steps("cosine_restarts", steps);
  if (factor < 1) raise("[schedule] cosine_restarts needs a factor of at least 1, got {}", factor);
  return Schedule([=](std::int64_t step) {
    std::int64_t period = steps;
    if (factor == 1) step %= steps;
    for (; step >= period; period *= factor) step -= period;
    return half_cosine(rate, lowest, static_cast<double>(step) / static_cast<double>(period));
  });
}

Schedule Schedule::noam(std::int64_t width, std::int64_t warm_up, double scale) {
  check_steps("noam", warm_up);
  if (width < 1) raise("[schedule] noam needs a positive width, got {}", width);
  check_rate(scale);
  return Schedule([=](std::int64_t step) {
    const auto t = static_cast<double>(step + 1);
    const double rising = t * std::pow(static_cast<double>(warm_up), -1.5);
    return scale / std::sqrt(static_cast<double>(width)) * std::min(1.0 / std::sqrt(t), rising);
  });
}

Schedule Schedule::one_cycle(double highest, const OneCycle& cycle) {
  check_rate(highest);
  check_steps("one_cycle", cycle.steps);
  if (!(cycle.rising > 0.0 && cycle.rising < 1.0))
    raise("[schedule] the rising share of one_cycle must be in (0, 1), got {}", cycle.rising);
  check_positive("schedule", "div_factor", cycle.div_factor);
  check_positive("schedule", "final_div_factor", cycle.final_div_factor);
  const double first = highest / cycle.div_factor;
  const double last = first / cycle.final_div_factor;
  const double top = cycle.rising * static_cast<double>(cycle.steps) - 1.0;
  const double down = 2.0 * top;  // where three phases are back at the first rate
  const auto end = static_cast<double>(cycle.steps - 1);
  return Schedule([=](std::int64_t step) {
    if (step >= cycle.steps) raise("[schedule] one_cycle has {} steps, and was asked for step {}", cycle.steps, step);
    const auto line = cycle.cosine ? half_cosine : between;
    const auto t = static_cast<double>(step);
    if (t <= top) return line(first, highest, top == 0.0 ? 1.0 : t / top);
    if (!cycle.three_phase) return line(highest, last, (t - top) / (end - top));
    if (t <= down) return line(highest, first, (t - top) / (down - top));
    return line(first, last, (t - down) / (end - down));
  });
}

Schedule Schedule::cyclic(double lowest, double highest) { return cyclic(lowest, highest, Cyclic{}); }

Schedule Schedule::cyclic(double lowest, double highest, const Cyclic& cycle) {
  check_rate(lowest);
  check_rate(highest);
  check_steps("cyclic", cycle.rising);
  if (cycle.falling < 0) raise("[schedule] cyclic cannot fall for {} steps", cycle.falling);
  check_positive("schedule", "cycle_factor", cycle.cycle_factor);
  check_positive("schedule", "step_factor", cycle.step_factor);
  const std::int64_t falling = cycle.falling == 0 ? cycle.rising : cycle.falling;
  const std::int64_t length = cycle.rising + falling;
  return Schedule([=](std::int64_t step) {
    const std::int64_t within = step % length;
    const double share = within <= cycle.rising ? static_cast<double>(within) / static_cast<double>(cycle.rising)
                                                : static_cast<double>(length - within) / static_cast<double>(falling);
    const double height = std::pow(cycle.cycle_factor, static_cast<double>(step / length)) *
                          std::pow(cycle.step_factor, static_cast<double>(step));
    return lowest + (highest - lowest) * share * height;
  });
}

Schedule Schedule::warm_up(std::int64_t steps, Schedule then, double start_factor) {
  check_not_negative("schedule", "start_factor", start_factor);
  const double rate = then(0);
  return sequential({linear(start_factor * rate, rate, steps), std::move(then)}, {steps});
}

Schedule Schedule::sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones) {
  check_ascending(milestones);
  if (schedules.size() != milestones.size() + 1)
    raise("[schedule] {} schedules in sequence need {} milestones between them, got {}", schedules.size(),
          static_cast<std::int64_t>(schedules.size()) - 1, milestones.size());
  return Schedule([schedules = std::move(schedules), milestones = std::move(milestones)](std::int64_t step) {
    const std::size_t now = reached(milestones, step);
    return schedules[now](now == 0 ? step : step - milestones[now - 1]);
  });
}

Schedule Schedule::chained(std::vector<Schedule> schedules) {
  if (schedules.empty()) raise("[schedule] there is nothing to chain");
  return Schedule([schedules = std::move(schedules)](std::int64_t step) {
    double rate = 1.0;
    for (const Schedule& schedule : schedules) rate *= schedule(step);
    return rate;
  });
}

}  // namespace tutti
