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

/// Times a peer's all-reduce as our benches time ours: a sum of f32 in place, in a buffer that stays; a meeting in
/// front of each call, not timed; from there to the result in rank 0's buffer; the median of samples, each the mean of
/// `calls` calls. These are 4 beside benches/distributed_bench.cpp, which has as many, and 1 beside
/// benches/shared_memory_bench.cpp, which takes medians of single calls. With `written` each rank first writes its
/// buffer, not timed. Rank 0 prints a line of JSON per size.
class AllReduceRounds {
 public:
  /// Sums `count` values at `data` over both ranks, in place.
  using Reduce = std::function<void()>;
  using Prepare = std::function<Reduce(float* data, std::size_t count)>;

  AllReduceRounds(int rank, bool written, int calls, std::string variant, std::function<void()> meet)
      : rank_(rank), written_(written), calls_(calls), variant_(std::move(variant)), meet_(std::move(meet)) {
    if (calls_ < 1) throw std::invalid_argument("a sample has one call at least");
  }

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
    std::ranges::fill(buffer, 0.0F);  // a sum of zeros may be repeated for ever
    const auto seconds_of_call = [&] {
      if (written_) std::ranges::fill(buffer, 0.0F);
      meet_();
      const auto start = Clock::now();
      reduce();
      return seconds_since(start);
    };
    for (int call = 0; call < 4; ++call) seconds_of_call();  // warms up
    std::vector<double> samples;
    for (int left = buffer.size() > std::size_t{1} << 20 ? 24 : 120; left > 0; left -= calls_) {
      double total = 0.0;
      for (int call = 0; call < calls_; ++call) total += seconds_of_call();
      samples.push_back(total / calls_);
    }
    return samples;
  }
  void report(const std::vector<float>& buffer, const std::vector<double>& seconds) const {
    if (rank_ != 0) return;
    std::printf("{\"variant\": \"%s\", \"bytes\": %zu, \"us\": %.2f, \"worst_us\": %.2f}\n", variant_.c_str(),
                buffer.size() * sizeof(float), median(seconds) * 1e6, *std::ranges::max_element(seconds) * 1e6);
    std::fflush(stdout);
  }

  int rank_;
  bool written_;
  int calls_;  // of which a sample is the mean
  std::string variant_;
  std::function<void()> meet_;
};

}  // namespace tutti::bench
