// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/run_statistics_hook.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/trainer.h>

#include <utility>

namespace tutti {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RunStatisticsHook::RunStatisticsHook(RunStatisticsOptions options) : options_(std::move(options)) {
  if (options_.every_steps < 1)
    raise<Error>("[run statistics] every {} steps: at least every step", options_.every_steps);
}

void RunStatisticsHook::before_train() {
  throughput_.reset();
  samples_ = trainer().storage().samples();
  last_ = Clock::now();
}

void RunStatisticsHook::before_evaluation() { throughput_.add(0, seconds_between(last_, Clock::now())); }

void RunStatisticsHook::after_evaluation(const Metrics&) { last_ = Clock::now(); }

void RunStatisticsHook::after_step(const StepReport& report) {
  if (!report.training) return;
  EventStorage& storage = trainer().storage();
  const auto now = Clock::now();
  const double samples = storage.samples() - std::exchange(samples_, storage.samples());
  throughput_.add(samples, seconds_between(std::exchange(last_, now), now));
  if (report.global_step % options_.every_steps != 0) return;
  storage.put_scalar("throughput", std::exchange(throughput_, {}).value());
  if (!options_.devices.empty()) put_memory(storage, options_.devices);
  if (options_.sync != nullptr) put_sync(storage, options_.sync->report());
}

}  // namespace tutti
