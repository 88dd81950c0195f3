// SPDX-License-Identifier: Apache-2.0
// Training that is killed as by kill -9, wherever it is, and resumed from its checkpoints, ends bitwise where training
// that was left alone ends: this program does it to itself.
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/examples/stepping_process.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/learner.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

namespace {

using namespace tutti;

struct Options {
  std::string data = "examples/data/digits.csv.gz";
  std::int64_t devices = 2;
  std::int64_t epochs = 4;
  std::int64_t kills = 3;
  std::uint64_t seed = std::random_device()();  ///< of the moments at which it is killed
  std::string folder;                           ///< of the run that is killed: set in its processes
};

Sequential network() {
  Generator random(1);
  return Sequential(Conv2d(1, 16, 3, random, {.padding = 1}), ReLU(), Flatten(), Dropout(0.25, random),
                    Linear(16 * 8 * 8, 10, random));
}

/// Digits on several devices, with everything that a checkpoint has to keep: moments of AdamW, a schedule, dropout,
/// shuffled data, metrics.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        devices_(devices_of("cpu", options.devices)),
        batches_(load_digits(options.data), {.batch = 32, .devices = devices_, .seed = 1}),
        learner_(network(),
                 {.optimizer = [](Sequential& m) { return std::make_unique<AdamW>(m.parameters(), 0.003); },
                  .data = [this](std::size_t d) { return batches_.stream(d); },
                  .losses = [](Sequential& m, const Batch& batch) -> Losses {
                    return {{"loss", cross_entropy(m(batch.inputs), batch.targets)}};
                  }},
                 {.devices = devices_, .step = {.metrics_every = 7}}) {
    const Schedule schedule = Schedule::cosine(0.003, steps());
    for (std::size_t d = 0; d < devices_.size(); ++d)
      learner_.trainer(d).register_hook(std::make_shared<LearningRateSchedule>(learner_.optimizer(d), schedule));
    learner_.add_parts(parts_);
  }

  std::int64_t steps() const { return options_.epochs * batches_.steps(); }

  void train() { learner_.train({.epochs = options_.epochs}); }

  /// Says how far it is, if it takes its time.
  void show_progress() {
    learner_.main().register_hook(std::make_shared<ProgressBar>(ProgressBarOptions{
        .steps = batches_.steps(), .progress = {.unit = "images", .quiet = std::chrono::seconds(1)}}));
  }

  /// Goes on from the newest checkpoint, and tells each step.
  void train_in(const std::string& folder) {
    CheckpointFolder checkpoints(folder, {.every_steps = 5, .max_to_keep = 3});
    checkpoints.load_newest(parts_);
    learner_.save_into(checkpoints, parts_);
    learner_.main().register_hook(std::make_shared<CallbackHook>(
        Callbacks{.after_step = [](Trainer&, const StepReport&) { stepping::tell_step(); }}));
    train();
  }

  /// What the newest checkpoint has.
  std::int64_t load(const std::string& folder) {
    const auto loaded = CheckpointFolder(folder).load_newest(parts_);
    return loaded ? loaded->progress.step : 0;
  }

  /// Parameters, and all that the optimizer keeps, bit by bit: an array each.
  std::vector<std::vector<std::uint8_t>> bits() {
    std::vector<std::vector<std::uint8_t>> all;
    for (const auto& [part, state] : parts_.save({.include = {"model", "optimizer"}}))
      for (const auto& [name, array] : state.arrays) {
        const auto values = array.to_vector<float>();
        const auto* const begin = reinterpret_cast<const std::uint8_t*>(values.data());
        all.emplace_back(begin, begin + values.size() * sizeof(float));
      }
    return all;
  }

  /// Of the steps that were reported last.
  double loss() { return learner_.main().storage().latest("total_loss").value().value; }

 private:
  const Options options_;
  const std::vector<Device> devices_;
  const BatchStream batches_;
  DataParallelLearner<Sequential, Batch> learner_;
  CheckpointParts parts_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "tutti-resume-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) raise<Error>("cannot make a folder in {}", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

stepping::SteppingProcess start(const Options& options, const std::string& folder) {
  return stepping::SteppingProcess({"--folder", folder, "--data", options.data, "--devices",
                                    std::to_string(options.devices), "--epochs", std::to_string(options.epochs)});
}

/// After at least a step, somewhere in the next part of what is left, and somewhere within a step. A part is kept for
/// the run that is left alone.
void kill_somewhere(const Options& options, const std::string& folder, Generator& random, std::int64_t kill) {
  Run seen(options);
  std::int64_t step = seen.load(folder);
  const std::int64_t from = step;
  const std::int64_t span = std::max<std::int64_t>(1, (seen.steps() - step) / (options.kills - kill + 1));
  auto process = start(options, folder);
  for (auto left = 1 + random.below(static_cast<std::uint64_t>(span)); left > 0 && process.wait_for_step(); --left)
    ++step;
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(5000)));
  const bool killed = process.kill_now();
  while (process.wait_for_step()) ++step;  // what it made meanwhile
  fmt::print("{} {}, begun at step {}; newest whole checkpoint: step {}\n",
             killed ? "killed with SIGKILL after step" : "ended before it was killed, at step", step, from,
             seen.load(folder));
}

bool resumes_exactly(const Options& options) {
  Run alone(options);
  alone.show_progress();
  alone.train();
  fmt::print("left alone: {} steps, loss {:.6f}\n", alone.steps(), alone.loss());
  const TemporaryFolder temporary;
  const std::string folder = temporary.path() + "/run";
  fmt::print("the same training, killed {} times (--seed {}):\n", options.kills, options.seed);
  Generator random(options.seed);
  for (std::int64_t kill = 0; kill < options.kills; ++kill) kill_somewhere(options, folder, random, kill);
  if (!start(options, folder).ends_well()) raise<Error>("the last run failed");
  Run resumed(options);
  const std::int64_t steps = resumed.load(folder);
  fmt::print("resumed to its end: {} steps, loss {:.6f}\n", steps, resumed.loss());
  const auto expected = alone.bits();
  const bool equal = resumed.bits() == expected && !expected.empty();
  fmt::print("parameters and optimizer state, {} arrays: {}\n", expected.size(), equal ? "bitwise equal" : "DIFFERENT");
  return equal;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains on digits, is killed at random points, resumes, and compares with training left alone.",
               "./dev demo resume");
  app.option_defaults()->always_capture_default();
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1000});
  app.add_option("--devices", options.devices, "CPU devices, each driven by a thread")->check(positive);
  app.add_option("--epochs", options.epochs, "passes over the training data")->check(positive);
  app.add_option("--kills", options.kills, "how often it is killed")->check(positive);
  app.add_option("--seed", options.seed, "of the moments at which it is killed; by default another each time")
      ->default_str("random");
  app.add_option("--data", options.data, "the digits, as CSV, plain or gzipped");
  app.add_option("--folder", options.folder)->group("");  // of the processes
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "resume: {}\n", error.what());
    return 2;
  }
  try {
    if (options.folder.empty()) return resumes_exactly(options) ? 0 : 1;
    Run(options).train_in(options.folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "resume: {}\n", error.what());
    return 1;
  }
  return 0;
}
