// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/dataset.h>
#include <tutti/train/reporting/run_record.h>

#include <cstdint>
#include <optional>
#include <string>

namespace digits {

struct Options {
  std::string data = "examples/data/digits.csv.gz";
  std::string output = "runs/digits";                    ///< folder for metrics.jsonl, trace.json and run.json
  std::string network = "lenet";                         ///< or "resnet"
  std::string device = "cpu";                            ///< kind
  std::int64_t devices = 2;                              ///< of each process
  std::optional<std::int64_t> processes = std::nullopt;  ///< how many to start; none: as many as a launcher has
  std::int64_t epochs = 40;
  std::int64_t batch = 32;  ///< per device
  std::uint64_t seed = 1;
  std::optional<int> threads = std::nullopt;  ///< of each CPU device; none: TUTTI_CPU_THREADS, else 1
  double learning_rate = 0.005;
  tutti::RunDescription::Facts given = {};  ///< all of these by name, for the run's record
};

/// Milliseconds of a step, medians.
struct ReductionCost {
  double busy = 0.0;    ///< thread time spent on reductions
  double hidden = 0.0;  ///< share of the time from their launch to their end that passed before backward's end
  double skew = 0.0;    ///< the wait of a process's first device for its last one
  /// Step time minus the step time with reductions switched off, interleaved; none where processes train together.
  std::optional<double> exposed = std::nullopt;
  double noise = 0.0;  ///< how far off `exposed` may be: half a 95 % interval of the median difference
};

struct Result {
  double test_accuracy = 0.0;  ///< in [0, 1]
  double seconds = 0.0;        ///< of training, validation included
  double images_per_second = 0.0;
  std::int64_t steps = 0;
  ReductionCost reduction;  ///< where processes train together, in the last steps of the first one
  std::string devices;      ///< what it ran on, of this process
  int processes = 1;
  bool first_process = true;  ///< which says for all what came of it
  std::string interrupted;    ///< by Ctrl-C: what was kept and how to go on, and no figures; empty: it came to its end
};

/// Trains with one thread per device, together with the processes of its launcher; the first one shows progress on
/// standard error; writes metrics and trace; Ctrl-C ends it. Throws tutti::Error.
Result train(const Options&);

}  // namespace digits
