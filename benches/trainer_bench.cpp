// SPDX-License-Identifier: Apache-2.0
// What a trainer adds to the digits step, without hooks and with all that usually stand there: beside each of its steps
// one as a loop written by hand takes it.
#include <tutti/autodiff/backward.h>
#include <tutti/benches/models.h>
#include <tutti/benches/same_batch.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/loss.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/hooks/iteration_timer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/csv_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>
#include <tutti/train/reporting/tensorboard_writer.h>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

using namespace tutti;
using namespace tutti::bench;

namespace {

Batch digits_batch(Generator& random) {
  auto [inputs, targets] = kDigitsCnn.make_batch(random, cpu());
  return {std::move(inputs), std::move(targets), kDigitsCnn.batch};
}

/// A model, how it learns, and the step that one would write.
struct Trainee {
  void step() {
    const std::optional<Batch> batch = data.next();
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(model.forward(batch->inputs), batch->targets);
    backward(loss);
    optimizer->step();
    benchmark::DoNotOptimize(loss.item<double>());
  }

  Generator random{1};
  Sequential model = kDigitsCnn.make_model(random);
  std::unique_ptr<Optimizer> optimizer = kDigitsCnn.make_optimizer(model.parameters());
  SameBatch data{digits_batch(random)};
};

/// A trainer that takes the time of its steps, beside each the step of a loop written by hand, and of all that is
/// between them: hooks and the loop itself.
class TimedTrainer : public EagerTrainer<Batch> {
 public:
  using EagerTrainer<Batch>::EagerTrainer;
  const PairedSamples& steps() const { return steps_; }
  double between() const { return between_; }  ///< seconds, of all steps but the first

 protected:
  Metrics run_step() override {
    if (iteration() > start_iteration()) between_ += processor_seconds() - end_;
    Metrics metrics;
    double ours = 0;
    double by_hand = 0;
    for (int i = 0; i < 2; ++i) {  // which one is first changes
      const double start = processor_seconds();
      const bool own = (iteration() + i) % 2 == 0;
      if (own)
        metrics = EagerTrainer<Batch>::run_step();
      else
        by_hand_.step();
      (own ? ours : by_hand) = processor_seconds() - start;
    }
    steps_.add(ours, by_hand);
    processor_seconds();  // a system call: the next one finds its code in the caches
    end_ = processor_seconds();
    return metrics;
  }

 private:
  Trainee by_hand_;
  PairedSamples steps_;
  double between_ = 0;
  double end_ = 0;
};

struct TrainedTrainee : Trainee {
  TimedTrainer trainer{model, *optimizer, data, [this](const Batch& batch) -> Losses {
                         return {{"loss", cross_entropy(model.forward(batch.inputs), batch.targets)}};
                       }};
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

void add_hooks(TrainedTrainee& trained, const std::string& folder, std::FILE* output) {
  constexpr std::int64_t kRun = 1'000'000;
  std::vector<std::unique_ptr<EventWriter>> writers;
  writers.push_back(std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.iterations = kRun, .output = output}));
  writers.push_back(std::make_unique<JsonLinesWriter>(folder + "/log.jsonl"));
  writers.push_back(std::make_unique<CsvWriter>(folder + "/log.csv"));
  writers.push_back(std::make_unique<TensorBoardWriter>(folder));
  trained.trainer.register_hooks(
      {std::make_shared<LearningRateSchedule>(*trained.optimizer, Schedule::cosine(1e-3, kRun)),
       std::make_shared<IterationTimer>(), std::make_shared<PeriodicWriter>(std::move(writers), 20),
       std::make_shared<ProgressBar>(
           ProgressBarOptions{.steps = kRun, .progress = {.output = output, .terminal = true, .width = 100}})});
}

void trainer_overhead(benchmark::State& state, bool with_hooks) {
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-bench-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  {
    const File output(std::fopen((folder / "console").c_str(), "w"), &std::fclose);
    TrainedTrainee trained;
    if (with_hooks) add_hooks(trained, folder.string(), output.get());
    TimedTrainer& trainer = trained.trainer;
    for (auto _ : state) trainer.train({.steps = trainer.iteration() + state.range(0)});
    const double step = trainer.steps().peer();
    state.counters["step_us"] = 1e6 * step;
    state.counters["within_percent"] = 100 * (trainer.steps().ratio() - 1);
    state.counters["between_percent"] = 100 * trainer.between() / static_cast<double>(trainer.iteration()) / step;
  }
  std::filesystem::remove_all(folder);
}

void steps(benchmark::internal::Benchmark* bench) { bench->ArgName("steps")->Arg(2000)->Iterations(1)->UseRealTime(); }

BENCHMARK_CAPTURE(trainer_overhead, empty, false)->Apply(steps);
BENCHMARK_CAPTURE(trainer_overhead, hooks, true)->Apply(steps);

}  // namespace
