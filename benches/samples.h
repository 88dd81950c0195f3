// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace tutti::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of this thread alone, whoever else is busy: with a device of one thread, all that a step takes.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Timings of two things that were measured in turn. Neighbours in time are compared with each other, so that a
/// machine that drifts, or that others use, moves both.
class PairedSamples {
 public:
  void add(double ours, double peer) {
    ours_.push_back(ours);
    peer_.push_back(peer);
  }
  double ours() const { return median(ours_); }
  double peer() const { return median(peer_); }
  double ratio() const {  ///< median of ours / peer
    return median(combined([](double ours, double peer) { return ours / peer; }));
  }
  double difference() const {  ///< median of ours - peer
    return median(combined([](double ours, double peer) { return ours - peer; }));
  }

 private:
  template <class F> std::vector<double> combined(F f) const {
    std::vector<double> result(ours_.size());
    std::ranges::transform(ours_, peer_, result.begin(), f);
    return result;
  }

  std::vector<double> ours_;
  std::vector<double> peer_;
};

}  // namespace tutti::bench
