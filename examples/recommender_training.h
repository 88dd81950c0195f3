// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/run_record.h>

#include <cstdint>
#include <optional>
#include <string>

namespace clicks {

struct Options {
  std::string output = "runs/recommender";  ///< folder for checkpoints, metrics.jsonl, trace.json and run.json
  std::string device = "cpu";               ///< kind
  std::int64_t devices = 2;
  std::optional<std::int64_t> processes = std::nullopt;  ///< that train together; none: those of a launcher, else one
  std::optional<int> threads = std::nullopt;             ///< of each CPU device; none: TUTTI_CPU_THREADS, else 1
  std::int64_t hours = 24;                               ///< windows of the log
  std::int64_t impressions = 8000;                       ///< an hour
  std::int64_t epochs = 2;
  std::int64_t batch = 128;   ///< per device
  std::int64_t features = 8;  ///< of an embedding
  double learning_rate = 0.002;
  double sparse_learning_rate = 0.01;
  std::uint64_t seed = 1;
  tutti::RunDescription::Facts given = {};  ///< all of these by name, for the run's record
};

struct Result {
  bool first_process = true;         ///< other processes have no figures
  std::string resumed_from;          ///< the checkpoint; empty: none
  std::string interrupted;           ///< by Ctrl-C: what was kept and how to go on, and no figures; empty: it was not
  std::int64_t steps = 0;            ///< of the whole run
  std::int64_t rows = 0;             ///< of both tables
  double auc = 0.0;                  ///< on the hour after the last
  double best_auc = 0.0;             ///< of the probabilities that the clicks were drawn with
  double examples_per_second = 0.0;  ///< of this program; 0: it had nothing to do
};

/// Trains with one thread per device, or goes on where the run in the folder was interrupted. Throws tutti::Error.
Result train(const Options&);

}  // namespace clicks
