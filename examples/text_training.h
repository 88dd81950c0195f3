// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace text {

struct Options {
  std::string text;                  ///< path of any text; its bytes are the characters
  std::string output = "runs/text";  ///< folder for log.jsonl and checkpoints
  std::string model = "gpt";         ///< or "lstm"
  std::string device = "cpu";
  std::int64_t devices = 2;
  int threads_per_device = 1;
  std::int64_t steps = 300;
  std::int64_t batch = 8;  ///< sequences per device
  std::int64_t context = 64;
  std::int64_t features = 64;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  double dropout = 0.0;
  double learning_rate = 3e-3;
  std::uint64_t seed = 1;
  std::int64_t report_every = 20;     ///< steps
  std::int64_t checkpoint_every = 0;  ///< steps; 0: no checkpoints
  bool resume = false;                ///< from the newest checkpoint of `output`
  std::int64_t sample = 200;          ///< characters to write at the end
  std::string prompt;                 ///< empty: the text's first character
  double temperature = 0.8;
};

struct Result {
  double training_loss = 0.0;    ///< nats a character, of the steps reported last
  double validation_loss = 0.0;  ///< of the last tenth of the text
  double characters_per_second = 0.0;
  std::int64_t parameters = 0;
  std::string sample;  ///< begins with the prompt
};

/// Trains with one thread per device; shows figures on standard error. Throws tutti::Error.
Result train(const Options&);

}  // namespace text
