// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/benches/samples.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::bench {

/// Times a peer's all-reduce as benches/distributed_bench.cpp times ours: a sum of f32 in place, in a buffer that
/// stays; a meeting in front of each call, not timed; from there to the result in rank 0's buffer; the median of
/// samples of several calls each. With `written` each rank first writes its buffer, not timed. Rank 0 prints a line of
/// JSON per size.
class AllReduceRounds {
 public:
  /// Sums `count` values at `data` over both ranks, in place.
  using Reduce = std::function<void()>;
  using Prepare = std::function<Reduce(float* data, std::size_t count)>;

  AllReduceRounds(int rank, bool written, std::string variant, std::function<void()> meet)
      : rank_(rank), written_(written), variant_(std::move(variant)), meet_(std::move(meet)) {}

  void run(const Prepare& prepare) {
    for (const std::size_t kilobytes : {64, 1024, 4096, 16384, 65536}) {
      std::vector<float> buffer(kilobytes << 8, static_cast<float>(rank_ + 1));
      const Reduce reduce = prepare(buffer.data(), buffer.size());
      reduce();
      if (std::ranges::any_of(buffer, [](float value) { return value != 3.0F; }))
        throw std::runtime_error("1 and 2 did not add up to 3");
      report(buffer, time(buffer, reduce));
    }
  }

 private:
  std::vector<double> time(std::vector<float>& buffer, const Reduce& reduce) {
    const int samples = buffer.size() > std::size_t{1} << 20 ? 6 : 30;
    std::ranges::fill(buffer, 0.0F);  // a sum of zeros may be repeated for ever
    std::vector<double> seconds;
    for (int sample = -1; sample < samples; ++sample) {  // the first warms up
      double total = 0.0;
      for (int call = 0; call < kCalls; ++call) {
        if (written_) std::ranges::fill(buffer, 0.0F);
        meet_();
        const auto start = Clock::now();
        reduce();
        total += seconds_since(start);
      }
      if (sample >= 0) seconds.push_back(total / kCalls);
    }
    return seconds;
  }
  void report(const std::vector<float>& buffer, const std::vector<double>& seconds) const {
    if (rank_ != 0) return;
    std::printf("{\"variant\": \"%s\", \"bytes\": %zu, \"us\": %.2f, \"worst_us\": %.2f}\n", variant_.c_str(),
                buffer.size() * sizeof(float), median(seconds) * 1e6, *std::ranges::max_element(seconds) * 1e6);
    std::fflush(stdout);
  }

  static constexpr int kCalls = 4;  // a sample
  int rank_;
  bool written_;
  std::string variant_;
  std::function<void()> meet_;
};

}  // namespace tutti::bench
