// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_summary.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tutti {

namespace {

using Time = SyncReport::Time;
using Nanoseconds = std::chrono::nanoseconds;

Nanoseconds median(std::vector<Nanoseconds> values) {
  if (values.empty()) return Nanoseconds(0);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Half a 95 % interval of the median's distance from the true one, squared, in ns^2. The median of n normal values has
// the deviation sqrt(pi / 2 / n) sigma, and the quartiles are 1.349 sigma apart: 1.96 * 1.2533 / 1.349 = 1.82.
std::optional<double> median_noise(std::vector<Nanoseconds> values) {
  if (values.size() < 4) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t quarter = values.size() / 4;
  const auto spread = static_cast<double>((values[values.size() - 1 - quarter] - values[quarter]).count());
  return 1.82 * 1.82 * spread * spread / static_cast<double>(values.size());
}

// The devices that took part: one that left has no times.
template <class Member> std::vector<Time> times_of(const SyncReport::Step& step, Member member) {
  std::vector<Time> times;
  for (const auto& device : step.devices)
    if (device.begin != Time{}) times.push_back(device.*member);
  return times;
}

bool ended(const SyncReport::Step& step) {
  const auto joined = times_of(step, &SyncReport::DeviceTimes::joined);
  return !joined.empty() && std::ranges::find(joined, Time{}) == joined.end();
}

Nanoseconds duration(const SyncReport::Step& step) {
  return std::ranges::max(times_of(step, &SyncReport::DeviceTimes::joined)) -
         std::ranges::min(times_of(step, &SyncReport::DeviceTimes::begin));
}

// Parameters of a bucket are reduced together, and stand one after the other.
bool are_one_bucket(const SyncReport::Reduction& one, const SyncReport::Reduction& next) {
  return one.launched == next.launched && one.finished == next.finished;
}

// Time of the reduction, and how much of it passed before `end`.
struct Cover {
  Nanoseconds total{0};
  Nanoseconds hidden{0};
  void add(const SyncReport::Reduction& reduction, Time end) {
    total += reduction.finished - reduction.launched;
    hidden += std::max(Nanoseconds(0), std::min(reduction.finished, end) - std::min(reduction.launched, end));
  }
  double share() const {
    return total.count() == 0 ? 1.0 : static_cast<double>(hidden.count()) / static_cast<double>(total.count());
  }
};

struct Samples {
  std::vector<Nanoseconds> spread, queued, reduction;
  Cover cover;
  void add(const SyncReport::Reduction& one, Time end) {
    std::vector<Time> ready;
    std::ranges::copy_if(one.ready, std::back_inserter(ready), [](Time time) { return time != Time{}; });
    if (!ready.empty()) {
      const auto [first, last] = std::ranges::minmax(ready);
      spread.push_back(last - first);
      queued.push_back(std::max(Nanoseconds(0), Nanoseconds(one.launched - last)));
    }
    reduction.push_back(one.finished - one.launched);
    cover.add(one, end);
  }
};

double microseconds(Nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

SyncSummary summarize(const SyncReport& report) {
  SyncSummary summary;
  std::vector<Nanoseconds> with, without, skews;
  std::vector<std::vector<Nanoseconds>> lateness(report.devices.size());
  std::map<std::uint32_t, Samples> samples;
  Cover cover;
  for (const SyncReport::Step& step : report.steps) {
    if (!ended(step)) continue;
    (step.reductions_enabled ? with : without).push_back(duration(step));
    if (!step.reductions_enabled) continue;
    const auto [first, last] = std::ranges::minmax(times_of(step, &SyncReport::DeviceTimes::backward_end));
    skews.push_back(last - first);
    for (std::size_t d = 0; d < step.devices.size(); ++d)
      if (step.devices[d].begin != Time{}) lateness[d].push_back(step.devices[d].backward_end - first);
    const SyncReport::Reduction* before = nullptr;
    for (const auto& reduction : step.reductions) {
      if (reduction.finished == Time{}) continue;
      samples[reduction.parameter.value].add(reduction, last);
      if (before == nullptr || !are_one_bucket(*before, reduction)) cover.add(reduction, last);
      before = &reduction;
    }
  }
  summary.steps = with.size();
  summary.step_time = median(with);
  summary.skew = median(skews);
  summary.hidden = cover.share();
  if (!with.empty() && !without.empty()) summary.exposed = median(with) - median(without);
  if (const auto a = median_noise(with), b = median_noise(without); a && b)
    summary.exposed_noise = Nanoseconds(std::llround(std::sqrt(*a + *b)));
  for (auto& device : lateness) summary.lateness.push_back(median(std::move(device)));
  for (auto& [id, of] : samples)
    summary.parameters.push_back(
        {report.parameters[id], median(of.spread), median(of.queued), median(of.reduction), of.cover.share()});
  std::ranges::stable_sort(summary.parameters, std::greater{}, &SyncSummary::Parameter::reduction);
  return summary;
}

namespace {

std::string exposed_text(const SyncSummary& summary) {
  if (!summary.exposed) return "not measured (no steps with reductions switched off)";
  const double exposed = microseconds(*summary.exposed);
  if (!summary.exposed_noise) return fmt::format("{:.1f} us (of too few steps to be sure)", exposed);
  const double noise = microseconds(*summary.exposed_noise);
  if (std::abs(exposed) <= noise) return fmt::format("nothing above the noise of {:.1f} us", noise);
  return fmt::format("{:.1f} us (+- {:.1f})", exposed, noise);
}

}  // namespace

std::string summary_text(const SyncReport& report, std::size_t slowest) {
  const SyncSummary summary = summarize(report);
  if (summary.steps == 0) return "no finished step with reductions is recorded\n";
  std::string text = fmt::format(
      "{} steps, median {:.1f} us; skew {:.1f} us; {:.0f} % of reduction time hidden; exposed {}\n", summary.steps,
      microseconds(summary.step_time), microseconds(summary.skew), 100.0 * summary.hidden, exposed_text(summary));
  text += fmt::format("\n{:<24} {:>12}\n", "device", "late by us");
  const int world = world_of(report.devices);
  for (std::size_t d = 0; d < summary.lateness.size(); ++d)
    text += fmt::format("{:<24} {:>12.1f}\n", to_string(report.devices[d], world), microseconds(summary.lateness[d]));
  text += fmt::format("\n{:<24} {:>12} {:>12} {:>12} {:>9}\n", "slowest parameters", "reduction us", "queued us",
                      "spread us", "hidden %");
  for (std::size_t i = 0; i < std::min(slowest, summary.parameters.size()); ++i) {
    const auto& row = summary.parameters[i];
    text += fmt::format("{:<24} {:>12.1f} {:>12.1f} {:>12.1f} {:>9.0f}\n", row.name, microseconds(row.reduction),
                        microseconds(row.queued), microseconds(row.spread), 100.0 * row.hidden);
  }
  return text;
}

}  // namespace tutti
