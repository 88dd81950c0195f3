// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/recommender_training.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group.h>
#include <tutti/examples/click_log.h>
#include <tutti/examples/wide_and_deep.h>
#include <tutti/nn/binary_loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/window_stream.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/stop_on_interrupt.h>
#include <tutti/train/recommender_trainer.h>
#include <tutti/train/reporting/auc.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace clicks {

using namespace tutti;

namespace {

using Trainer = RecommenderTrainer<WideAndDeep, Batch>;

void check(const Options& options, std::size_t world) {
  const auto devices = static_cast<std::int64_t>(world);
  if (options.hours < 1) raise<Error>("--hours {}: at least one hour is needed", options.hours);
  if (options.impressions < 1) raise<Error>("--impressions {}: at least one is needed", options.impressions);
  if (options.batch < 1) raise<Error>("--batch {}: at least one is needed", options.batch);
  if (options.batch > options.impressions / devices)
    raise<Error>("--batch {}: {} devices have {} impressions an hour", options.batch, devices, options.impressions);
  if (options.features < 1) raise<Error>("--features {}: at least one is needed", options.features);
}

/// Part of a checkpoint that tells with which data the run began: it is refused to go on with others.
class LogOptions {
 public:
  explicit LogOptions(const Options& options)
      : text_(fmt::format("--seed {} --impressions {} --batch {}", options.seed, options.impressions, options.batch)) {}
  std::string to_text() const { return text_; }
  void load_text(const std::string& text) const {
    if (text != text_) raise<DataError>("[recommender] the run in the folder has {}, not {}", text, text_);
  }

 private:
  std::string text_;
};

WideAndDeep initial_model(const Options& options) {
  Generator random(options.seed);
  return WideAndDeep(options.features, random);
}

Trainer::Learner::Parts parts_of(const Options& options, const GradientSync& sync, const ClickLog& log) {
  const auto hour = [options, &sync, &log](std::int64_t number, std::size_t device) {
    const BatchOptions batches{
        .batch = options.batch, .devices = sync.devices(), .world = sync.world(), .seed = options.seed};
    return BatchStream(log.hour(number, options.impressions).examples, batches).stream(device);
  };
  return {.optimizer = [rate = options.learning_rate](
                           WideAndDeep& m) { return std::make_unique<AdamW>(dense_parameters(m), rate); },
          .sparse_optimizer = [rate = options.sparse_learning_rate](
                                  WideAndDeep& m) { return std::make_unique<SparseAdamW>(sparse_parameters(m), rate); },
          .data =
              [=](std::size_t device) {
                return std::make_unique<WindowStream<Batch>>(options.hours,
                                                             [=](std::int64_t number) { return hour(number, device); });
              },
          .losses = [](WideAndDeep& m, const Batch& batch) -> Losses {
            return {{"loss", binary_cross_entropy_with_logits(m(batch.inputs), batch.targets)}};
          }};
}

double auc_of(WideAndDeep& model, const Examples& examples, Device device) {
  model.eval();
  const Inference inference;
  Auc auc;
  const Tensor logits = model(Tensor(examples.inputs.to(device)));
  const Shape rows{examples.size()};
  auc.add(logits.reshape(rows), Tensor(examples.targets.to(device)).reshape(rows));
  return auc.value();
}

double best_auc_of(const Hour& hour) {
  const Shape rows{hour.examples.size()};
  Auc auc;
  auc.add(Tensor(Array::from(hour.probabilities, rows, cpu())), Tensor(hour.examples.targets).reshape(rows));
  return auc.value();
}

}  // namespace

Result train(const Options& options) {
  const auto devices = devices_of(options.device, options.devices, options.threads);
  ProcessGroup processes = ProcessGroup::from_environment();
  GradientSync sync(processes, devices);
  check(options, sync.world().devices);
  const ClickLog log(options.seed);
  LogOptions log_options(options);
  const std::int64_t batches_of_all = options.batch * static_cast<std::int64_t>(sync.world().devices);
  const std::int64_t steps_an_hour = (options.impressions + batches_of_all - 1) / batches_of_all;
  const auto bar = std::make_shared<ProgressBar>(
      ProgressBarOptions{.steps = options.hours * steps_an_hour, .progress = {.unit = "impressions"}});
  Trainer trainer(sync, initial_model(options), parts_of(options, sync, log),
                  {.output_dir = options.output, .train_epoch = options.epochs, .max_to_keep = 2},
                  {.log = stderr, .bar = bar.get()});
  trainer.parts().add("options", log_options);
  Result result;
  result.first_process = trainer.learner().writes();
  if (const auto loaded = trainer.restore()) result.resumed_from = loaded->path;
  const auto interrupt = std::make_shared<StopOnInterrupt>();
  trainer.learner().main().register_hooks({interrupt, bar});
  if (result.first_process)
    fmt::print(stderr, "training on {}{}\n", devices_text(devices),
               processes.alone() ? "" : fmt::format(", in each of {} processes", processes.size()));
  const auto start = std::chrono::steady_clock::now();
  trainer.train();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto& main = trainer.learner().main();
  result.steps = main.iteration();
  if (!result.first_process) {
    if (interrupt->interrupted()) result.interrupted = "interrupted";
    return result;
  }
  if (interrupt->interrupted()) {
    result.interrupted =
        fmt::format("interrupted after step {}: {} and {}/metrics.jsonl are kept, and the same command goes on there",
                    result.steps, trainer.checkpoints().paths().back(), options.output);
    return result;
  }
  const auto made = static_cast<double>((main.iteration() - main.start_iteration()) * options.batch);
  result.examples_per_second = made * static_cast<double>(sync.world().devices) / seconds;
  WideAndDeep& model = trainer.learner().model();
  for (const auto& [name, table] : sparse_parameters(model)) result.rows += table->size();
  const Hour held_out = log.hour(options.hours, 10'000);
  result.auc = auc_of(model, held_out.examples, devices.front());
  result.best_auc = best_auc_of(held_out);
  return result;
}

}  // namespace clicks
