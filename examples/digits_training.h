// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sync_report.h>
#include <tutti/train/data/dataset.h>

#include <cstdint>
#include <string>

namespace digits {

struct Options {
  std::string data = "examples/data/digits.csv.gz";
  std::string output = "runs/digits";  ///< folder for metrics.jsonl and trace.json
  std::string network = "lenet";       ///< or "resnet"
  std::string device = "cpu";          ///< kind
  std::int64_t devices = 2;
  std::int64_t epochs = 40;
  std::int64_t batch = 32;  ///< per device
  std::uint64_t seed = 1;
  int threads_per_device = 1;
  double learning_rate = 0.005;
};

/// Milliseconds of a step, medians.
struct ReductionCost {
  double busy = 0.0;     ///< thread time spent on reductions
  double exposed = 0.0;  ///< step time minus the step time with reductions switched off, interleaved
  double noise = 0.0;    ///< how far off `exposed` may be: half a 95 % interval of the median difference
  double skew = 0.0;     ///< the first device's wait for the last one
  double hidden() const { return busy > exposed ? busy - exposed : 0.0; }
};

struct Result {
  double test_accuracy = 0.0;  ///< in [0, 1]
  double seconds = 0.0;        ///< of training, validation included
  double images_per_second = 0.0;
  std::int64_t steps = 0;
  double overlapped_steps = 0.0;  ///< share of the recorded steps that launched a reduction during backward
  ReductionCost reduction;
};

/// Trains with one thread per device; shows progress on standard error; writes metrics and trace. Throws tutti::Error.
Result train(const Options&);

}  // namespace digits
