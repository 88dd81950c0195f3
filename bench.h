// SPDX-License-Identifier: Apache-2.0
#pragma once

// Microbenchmarks of a program's own code: times of a case beside those of a baseline measured in turn with it, rates
// beside what this machine can do, and allocations counted. docs/guides/benchmarks.md has an example from start to end.

#include <tutti/backend/device.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tutti::bench {

/// Least work of one call, shown as rates. A multiply-add is two operations; bytes are those read and those written.
struct Work {
  double flops = 0.0;
  double bytes = 0.0;
};

/// One thing to measure.
struct Case {
  std::string name;                     ///< unique in its suite; parts are separated by '/'
  std::function<void()> run;            ///< one call of what is measured
  std::function<void()> baseline = {};  ///< one call of what it is compared with; empty: nothing
  Work work = {};
  Device device = cpu();  ///< waited for at the end of each sample
};

struct Options {
  int repetitions = 10;         ///< samples of each; too few tell no difference from chance
  double seconds = 0.02;        ///< least time of a sample, which is as many calls as that takes
  bool processor_time = false;  ///< ratios are those of processor time: with one thread it holds on a busy machine
};

/// Times of a call, as the mean over a sample.
struct Sample {
  double seconds = 0.0;            ///< wall time
  double processor_seconds = 0.0;  ///< processor time of all threads of this process
};

/// Figures of one case.
struct Measurement {
  std::string name;
  Work work;
  Device device = cpu();
  std::int64_t calls = 0;                             ///< number in a sample
  std::vector<Sample> samples = {};                   ///< one for each repetition
  std::int64_t baseline_calls = 0;                    ///< number in a sample; 0: no baseline
  std::vector<Sample> baseline = {};                  ///< taken in turn with `samples`; empty: no baseline
  std::vector<double> ratios = {};                    ///< time of each sample / that of its baseline's
  std::int64_t array_allocations = 0;                 ///< those of a warm call, from the device's memory pool
  std::optional<std::int64_t> heap_allocations = {};  ///< calls of operator new in a warm call, where they are counted
  double seconds() const;                             ///< median over the samples
  double spread() const;                              ///< half the width of the samples' middle half / their median
  std::optional<double> ratio() const;                ///< median; none without a baseline
};

/// Measures one case: after warm calls, repetitions of the case and its baseline in turn, each first every other time.
/// What they throw passes. Throws `Error` for a case without `run`, and for options that mean nothing, as fewer than
/// one repetition.
Measurement measure(const Case&, const Options& = {});

/// The cases of a program, and its command line.
class Suite {
 public:
  /// Throws `Error` for a name that is empty or there already, and for a case without `run`.
  Suite& add(Case);

  /// Measures the cases that the words ask for (`--help` lists them), prints a table, and writes files if asked to.
  /// Returns the program's status: 0, 1 if a case threw or a file could not be written, 2 for words that mean nothing
  /// or match no case.
  int main(int argc, const char* const* argv);

 private:
  std::vector<Case> cases_;
};

/// Keeps a value that nobody reads, and so the computing of it, from being optimised away.
template <class T> inline void keep(const T& value) { asm volatile("" : : "r,m"(value) : "memory"); }

/// Says where the program counts its calls of operator new. bench/count_allocations.h calls it before main.
void set_heap_counter(const std::atomic<std::int64_t>* counter) noexcept;

}  // namespace tutti::bench
