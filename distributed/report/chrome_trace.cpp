// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/chrome_trace.h>

#include <tutti/backend/profile/trace_lines.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti {

namespace {

using Time = SyncReport::Time;

// A device's "forward" is all between the opening of its step and the synchronised backward: where micro-batches are
// accumulated their backwards too, and with Overlap::double_buffered the wait for the step before.
void add_step(TraceLines& lines, const SyncReport& report, const SyncReport::Step& step) {
  const std::size_t reductions_track = report.devices.size();
  const auto span = [&](std::size_t track, const std::string& name, Time begin, Time end) {
    lines.span(track, name, begin.time_since_epoch(), end.time_since_epoch(),
               fmt::format(R"("generation":{})", step.generation));
  };
  for (std::size_t d = 0; d < step.devices.size(); ++d) {
    const auto& times = step.devices[d];
    if (times.begin == Time{} || times.backward_end == Time{}) continue;
    if (times.opened != Time{}) span(d, "forward", times.opened, times.begin);
    span(d, "backward", times.begin, times.backward_end);
    if (times.joined != Time{}) span(d, "join", times.backward_end, times.joined);
  }
  for (const auto& reduction : step.reductions) {
    const std::string& name = report.parameters[reduction.parameter.value];
    for (std::size_t d = 0; d < reduction.ready.size(); ++d)
      if (reduction.ready[d] != Time{}) lines.instant(d, "final: " + name, reduction.ready[d].time_since_epoch());
    if (reduction.finished != Time{}) span(reductions_track, name, reduction.launched, reduction.finished);
  }
}

}  // namespace

std::vector<StepRelease> releases_of(const SyncReport& report) {
  std::vector<StepRelease> all;
  for (const SyncReport::Step& step : report.steps) {
    Time first = Time::max();
    for (const auto& times : step.devices)
      if (times.released != Time{}) first = std::min(first, times.released);
    if (first != Time::max()) all.push_back({step.group, step.generation, first.time_since_epoch()});
  }
  return all;
}

std::chrono::nanoseconds clock_shift(std::span<const StepRelease> own, std::span<const StepRelease> other) {
  std::map<std::pair<std::uint64_t, std::int64_t>, std::chrono::nanoseconds> theirs;
  for (const StepRelease& each : other) theirs[{each.group, each.generation}] = each.at;
  std::vector<std::chrono::nanoseconds> differences;
  for (const StepRelease& each : own)
    if (const auto found = theirs.find({each.group, each.generation}); found != theirs.end())
      differences.push_back(each.at - found->second);
  if (differences.empty()) return {};
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
  std::ranges::nth_element(differences, middle);
  return *middle;
}

std::chrono::nanoseconds first_time(const SyncReport& report) {
  Time first = Time::max();
  for (const auto& step : report.steps)
    for (const auto& times : step.devices)
      for (const Time at : {times.opened, times.begin})
        if (at != Time{}) first = std::min(first, at);
  return first.time_since_epoch();
}

std::string trace_events(const SyncReport& report, int world, std::chrono::nanoseconds origin) {
  const int rank = report.devices.empty() ? 0 : report.devices.front().rank;
  TraceLines lines(rank + 1, origin);
  if (world > 1) lines.name_process(fmt::format("rank {}", rank));
  for (std::size_t d = 0; d < report.devices.size(); ++d) lines.name_track(d, to_string(report.devices[d], world));
  lines.name_track(report.devices.size(), "reductions");
  for (const auto& step : report.steps) add_step(lines, report, step);
  return lines.take();
}

void write_chrome_trace(const SyncReport& report, const std::string& path) {
  write_trace(trace_events(report, world_of(report.devices), first_time(report)), path);
}

}  // namespace tutti
