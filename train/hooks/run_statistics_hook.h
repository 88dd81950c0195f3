// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/hook.h>
#include <tutti/train/reporting/run_statistics.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace tutti {

class GradientSync;

struct RunStatisticsOptions {
  std::int64_t every_steps = 20;
  std::vector<Device> devices = {};  ///< devices whose memory is reported
  GradientSync* sync = nullptr;      ///< group of several devices; not owned
};

/// Puts what a run achieves into the trainer's storage, every so many training steps: "throughput", examples a second
/// of all devices (the storage's samples, by the time of these steps, data and hooks included, evaluations left out),
/// and what put_memory and put_sync put. Register it with the main device, before hooks that write.
class RunStatisticsHook final : public Hook {
 public:
  explicit RunStatisticsHook(RunStatisticsOptions);  ///< Error for every_steps below 1

  void before_train() override;
  void before_evaluation() override;
  void after_evaluation(const Metrics&) override;
  void after_step(const StepReport&) override;

 private:
  using Clock = std::chrono::steady_clock;

  RunStatisticsOptions options_;
  Throughput throughput_;  // throughput since it was last put
  double samples_ = 0;
  Clock::time_point last_;  // start of what is measured
};

}  // namespace tutti
