// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/run_record.h>

#include <cstdint>
#include <optional>
#include <string>

namespace text {

struct Options {
  std::string text;                  ///< path of any text; its bytes are the characters
  std::string output = "runs/text";  ///< folder for log.jsonl, trace.json, run.json and checkpoints
  std::string model = "gpt";         ///< or "lstm"
  std::int64_t vocabulary = 0;       ///< rows of the table of characters; 0: as many as the text has
  std::string device = "cpu";
  std::int64_t devices = 2;                              ///< of each process
  std::optional<std::int64_t> processes = std::nullopt;  ///< how many to start; none: as many as a launcher has
  std::optional<int> threads = std::nullopt;             ///< of each CPU device; none: TUTTI_CPU_THREADS, else 1
  std::int64_t steps = 300;
  std::int64_t batch = 8;  ///< sequences per device
  std::int64_t context = 64;
  std::int64_t features = 64;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  double dropout = 0.0;
  bool tied = true;                 ///< gpt: the head is the table of characters
  double initial_deviation = 0.02;  ///< gpt: of the first weights; 0: what the layers start with
  std::string autocast = "f32";     ///< of forward: bf16, or f32 for none
  double learning_rate = 3e-3;
  double lowest_rate = 0.1;   ///< what it falls to, a share of it
  double weight_decay = 0.1;  ///< of matrices; biases and norms have none
  std::uint64_t seed = 1;
  std::int64_t report_every = 20;     ///< steps
  std::int64_t checkpoint_every = 0;  ///< steps; 0: no checkpoints
  bool resume = false;                ///< from the newest checkpoint of `output`
  std::int64_t sample = 200;          ///< characters to write at the end
  std::string prompt;                 ///< empty: the text's first character
  double temperature = 0.8;
  tutti::RunDescription::Facts given = {};  ///< all of these by name, for the run's record
};

struct Result {
  double training_loss = 0.0;    ///< nats a character, of the steps reported last
  double validation_loss = 0.0;  ///< of the last tenth of the text
  double characters_per_second = 0.0;
  std::int64_t parameters = 0;
  std::string sample{};       ///< begins with the prompt
  bool first_process = true;  ///< which says for all what came of it
  std::string interrupted{};  ///< by Ctrl-C: what was kept and how to go on, and no figures; empty: it came to its end
};

/// Trains with one thread per device, together with the processes of its launcher; the first one shows figures on
/// standard error; Ctrl-C ends it. Throws tutti::Error.
Result train(const Options&);

}  // namespace text
