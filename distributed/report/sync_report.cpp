// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_report.h>

#include <algorithm>

namespace tutti {

namespace {

using Time = SyncReport::Time;

Time last_ready(const SyncReport::Step& step) {
  Time last{};
  for (const auto& reduction : step.reductions)
    for (const Time ready : reduction.ready) last = std::max(last, ready);
  return last;
}

}  // namespace

bool SyncReport::overlapped(const Step& step) {
  const Time last = last_ready(step);
  return std::any_of(step.reductions.begin(), step.reductions.end(),
                     [&](const Reduction& reduction) { return reduction.launched < last; });
}

std::chrono::nanoseconds SyncReport::skew(const Step& step) {
  Time first = Time::max();
  Time last{};
  for (const DeviceTimes& times : step.devices) {
    if (times.backward_end == Time{}) continue;
    first = std::min(first, times.backward_end);
    last = std::max(last, times.backward_end);
  }
  return last == Time{} ? std::chrono::nanoseconds(0) : last - first;
}

}  // namespace tutti
