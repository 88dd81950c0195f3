// SPDX-License-Identifier: Apache-2.0
#include <tutti/bench.h>

#include <tutti/backend/error.h>
#include <tutti/backend/memory/memory_pool.h>
#include <tutti/backend/registry.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace tutti::bench {

namespace {

using Clock = std::chrono::steady_clock;

const std::atomic<std::int64_t>* heap_counter = nullptr;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Value at a share of a sample, between its neighbours.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double above = values[std::min(below + 1, values.size() - 1)];
  return values[below] + (place - static_cast<double>(below)) * (above - values[below]);
}

std::vector<double> seconds_of(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  for (const Sample& sample : samples) seconds.push_back(sample.seconds);
  return seconds;
}

/// One of the two things that are measured in turn.
class Batch {
 public:
  Batch(const std::function<void()>& run, Device device) : run_(run), device_(device) {}

  /// Calls in a sample, found by doubling them until they take `seconds`; the calls before have warmed everything up.
  void calibrate(double seconds) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    run_();
    synchronize(device_);
    for (calls_ = 1; calls_ < kMost; calls_ *= 2) {
      const double taken = take().seconds * static_cast<double>(calls_);
      if (taken >= seconds) return;
      // Near enough to be computed.
      if (taken > seconds / 8) {
        calls_ = static_cast<std::int64_t>(std::ceil(static_cast<double>(calls_) * seconds / taken));
        return;
      }
    }
  }

  Sample take() const {
    const double processor = processor_seconds();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < calls_; ++i) run_();
    synchronize(device_);
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    const auto calls = static_cast<double>(calls_);
    return {taken / calls, (processor_seconds() - processor) / calls};
  }

  std::int64_t calls() const noexcept { return calls_; }

 private:
  const std::function<void()>& run_;
  Device device_;
  std::int64_t calls_ = 1;
};

/// Allocations of the warm call that makes fewest: other threads of the program may take memory meanwhile.
void count_allocations(const Case& each, Measurement& measured) {
  constexpr int kCalls = 3;
  const MemoryPool& pool = memory_pool(each.device);
  for (int i = 0; i < kCalls; ++i) {
    const auto arrays = static_cast<std::int64_t>(pool.statistics().allocations);
    const std::int64_t heap = heap_counter ? heap_counter->load() : 0;
    each.run();
    synchronize(each.device);
    const std::int64_t of_heap = heap_counter ? heap_counter->load() - heap : 0;
    const std::int64_t of_arrays = static_cast<std::int64_t>(pool.statistics().allocations) - arrays;
    measured.array_allocations = i == 0 ? of_arrays : std::min(measured.array_allocations, of_arrays);
    if (heap_counter) measured.heap_allocations = i == 0 ? of_heap : std::min(*measured.heap_allocations, of_heap);
  }
}

}  // namespace

void set_heap_counter(const std::atomic<std::int64_t>* counter) noexcept { heap_counter = counter; }

double Measurement::seconds() const { return quantile(seconds_of(samples), 0.5); }

double Measurement::spread() const {
  const std::vector<double> all = seconds_of(samples);
  const double middle = seconds();
  return middle > 0 ? (quantile(all, 0.75) - quantile(all, 0.25)) / 2 / middle : 0.0;
}

std::optional<double> Measurement::ratio() const {
  return ratios.empty() ? std::nullopt : std::optional(quantile(ratios, 0.5));
}

Measurement measure(const Case& each, const Options& options) {
  if (options.repetitions < 1) throw Error("[bench] fewer than one repetition");
  if (!(options.seconds > 0.0)) throw Error("[bench] the least time of a sample has to be above 0 s");
  if (!each.run) throw Error("[bench] the case " + each.name + " has nothing to run");
  Measurement measured{.name = each.name, .work = each.work, .device = each.device};
  Batch own(each.run, each.device);
  own.calibrate(options.seconds);
  measured.calls = own.calls();
  Batch other(each.baseline, each.device);
  if (each.baseline) {
    other.calibrate(options.seconds);
    measured.baseline_calls = other.calls();
  }
  count_allocations(each, measured);
  for (int i = 0; i < options.repetitions; ++i) {
    if (each.baseline && i % 2 == 1) measured.baseline.push_back(other.take());
    measured.samples.push_back(own.take());
    if (each.baseline && i % 2 == 0) measured.baseline.push_back(other.take());
  }
  const auto time = options.processor_time ? &Sample::processor_seconds : &Sample::seconds;
  for (std::size_t i = 0; i < measured.baseline.size(); ++i)
    measured.ratios.push_back(measured.samples[i].*time / measured.baseline[i].*time);
  return measured;
}

}  // namespace tutti::bench
