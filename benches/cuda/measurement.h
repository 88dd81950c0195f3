// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/registry.h>
#include <tutti/benches/samples.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::bench {

struct BenchOptions {
  Device device = cuda();
  std::int64_t bytes = std::int64_t{1} << 30;  ///< of an array in the table of memory-bound kernels
  std::int64_t size = 8192;                    ///< of square matrices; parts of transformers shrink with it
  int steps = 200;                             ///< of training, in one sample
  double seconds = 0.3;                        ///< that a row is measured for, at least
  std::string output;                          ///< JSON file; empty: none
};

/// One row of a table. `work` is bytes or floating-point operations; a peer did the same work beside it.
struct BenchRow {
  std::string table{};
  std::string name{};
  double seconds = 0;
  double work = 0;
  std::string peer{};
  double peer_seconds = 0;
  double peer_work = 0;
};

/// Prints rows as they come and writes all of them after each, so that a run that is ended leaves what it measured.
class BenchResults {
 public:
  explicit BenchResults(const BenchOptions& options) : options_(options) {}
  void add(BenchRow);

 private:
  BenchOptions options_;
  std::vector<BenchRow> rows_;
};

/// Seconds of one call: the shortest of several samples, each of enough calls that waiting for the device is nothing.
double seconds_of(Device, double seconds, const std::function<void()>& queue_work);

void bench_memory_bound(const BenchOptions&, BenchResults&);
void bench_products(const BenchOptions&, BenchResults&);
void bench_training(const BenchOptions&, BenchResults&);
void bench_attention(const BenchOptions&, BenchResults&);
void bench_transformer_parts(const BenchOptions&, BenchResults&);
void bench_gpt2(const BenchOptions&, BenchResults&);

}  // namespace tutti::bench
