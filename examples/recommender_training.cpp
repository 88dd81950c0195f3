// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/recommender_training.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/examples/click_log.h>
#include <tutti/examples/given_options.h>
#include <tutti/examples/recorded_run.h>
#include <tutti/examples/wide_and_deep.h>
#include <tutti/nn/binary_loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/window_stream.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/run_statistics_hook.h>
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

constexpr std::int64_t kReportEvery = 20;  // steps
constexpr std::int64_t kWatched = 2'000;   // impressions of the hour after the last, which each evaluation looks at

const Options& checked(const Options& options, std::size_t world) {
  const auto devices = static_cast<std::int64_t>(world);
  if (options.hours < 1) raise<Error>("--hours {}: at least one hour is needed", options.hours);
  if (options.impressions < 1) raise<Error>("--impressions {}: at least one is needed", options.impressions);
  if (options.batch < 1) raise<Error>("--batch {}: at least one is needed", options.batch);
  if (options.batch > options.impressions / devices)
    raise<Error>("--batch {}: {} devices have {} impressions an hour", options.batch, devices, options.impressions);
  if (options.features < 1) raise<Error>("--features {}: at least one is needed", options.features);
  return options;
}

std::int64_t steps_of_hour(const Options& options, std::size_t world) {
  const std::int64_t batches_of_all = options.batch * static_cast<std::int64_t>(world);
  return (options.impressions + batches_of_all - 1) / batches_of_all;
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

/// All in one batch, of which the ranks are.
BatchStream watched(const Options& options, const ClickLog& log, Device device) {
  return {log.hour(options.hours, kWatched).examples, {.batch = kWatched, .devices = {device}, .shuffle = false}};
}

double auc_of(const Tensor& scores, const Tensor& targets) {
  const Shape rows{targets.size()};
  Auc auc;
  auc.add(scores.reshape(rows), targets.reshape(rows));
  return auc.value();
}

double auc_of(WideAndDeep& model, const Examples& examples, Device device) {
  model.eval();
  const Inference inference;
  return auc_of(model(Tensor(examples.inputs.to(device))), Tensor(examples.targets.to(device)));
}

double best_auc_of(const Hour& hour) {
  const Shape rows{hour.examples.size()};
  return auc_of(Tensor(Array::from(hour.probabilities, rows, cpu())), Tensor(hour.examples.targets));
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
          },
          .evaluation_data = [options, &sync, &log](
                                 std::size_t device) { return watched(options, log, sync.devices()[device]).stream(); },
          .evaluation_losses = [](WideAndDeep& m, const Batch& batch) -> Losses {
            const Tensor logits = m(batch.inputs);
            return {{"loss", binary_cross_entropy_with_logits(logits, batch.targets)},
                    {"auc", full({}, auc_of(logits, batch.targets))}};
          }};
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        devices_(devices_of(options.device, options.devices, options.threads)),
        sync_(processes_, devices_),
        log_(checked(options, sync_.world().devices).seed),
        log_options_(options),
        trainer_(
            sync_, initial_model(options), parts_of(options, sync_, log_),
            {.output_dir = options.output, .log_steps = kReportEvery, .train_epoch = options.epochs, .max_to_keep = 2},
            {.dense_schedule = Schedule::constant(options.learning_rate), .log = stderr, .bar = bar_.get()}) {
    trainer_.parts().add("options", log_options_);
    if (const auto loaded = trainer_.restore()) resumed_from_ = loaded->path;
    trainer_.learner().main().register_hooks({interrupt_,
                                              std::make_shared<RunStatisticsHook>(RunStatisticsOptions{
                                                  .every_steps = kReportEvery, .devices = devices_, .sync = &sync_}),
                                              bar_});
  }

  /// As `train`, and the run's record says how it ended.
  Result recorded_train() {
    if (trainer_.learner().writes()) {
      trainer_.checkpoints().claim();  // the folder, which is made
      record_ = std::make_unique<RunRecord>(
          options_.output + "/run.json",
          RunDescription{.program = "recommender",
                         .options = options_.given,
                         .environment = examples::surroundings(devices_text(devices_), processes_.size())});
    }
    return examples::recorded(
        record_, [this] { return train(); }, [this] { return trainer_.learner().model().named_parameters(); });
  }

 private:
  Result train() {
    Result result;
    result.first_process = trainer_.learner().writes();
    result.resumed_from = resumed_from_;
    if (result.first_process)
      fmt::print(stderr, "training on {}{}\n", devices_text(devices_),
                 processes_.alone() ? "" : fmt::format(", in each of {} processes", processes_.size()));
    const auto start = std::chrono::steady_clock::now();
    trainer_.train_and_evaluate();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto& main = trainer_.learner().main();
    result.steps = main.iteration();
    if (interrupt_->interrupted()) {
      result.interrupted = result.first_process ? what_was_kept() : "interrupted";
      return result;
    }
    const std::int64_t made = main.iteration() - main.start_iteration();
    if (made > 0) write_chrome_trace(sync_, options_.output + "/trace.json");
    if (!result.first_process) return result;
    result.examples_per_second =
        static_cast<double>(made * options_.batch) * static_cast<double>(sync_.world().devices) / seconds;
    WideAndDeep& model = trainer_.learner().model();
    for (const auto& [name, table] : sparse_parameters(model)) result.rows += table->size();
    const Hour held_out = log_.hour(options_.hours, 10'000);
    result.auc = auc_of(model, held_out.examples, devices_.front());
    result.best_auc = best_auc_of(held_out);
    return result;
  }

  std::string what_was_kept() {
    return fmt::format(
        "interrupted after step {}: {} and {}/metrics.jsonl are kept, and the same command goes on there",
        trainer_.learner().main().iteration(), trainer_.checkpoints().paths().back(), options_.output);
  }

  const Options options_;
  const std::vector<Device> devices_;
  std::unique_ptr<RunRecord> record_;  // the first process's
  ProcessGroup processes_ = ProcessGroup::from_environment();
  GradientSync sync_;
  const ClickLog log_;
  LogOptions log_options_;
  const std::shared_ptr<StopOnInterrupt> interrupt_ = std::make_shared<StopOnInterrupt>(stderr);
  const std::shared_ptr<ProgressBar> bar_ = std::make_shared<ProgressBar>(
      ProgressBarOptions{.steps = options_.hours * steps_of_hour(options_, sync_.world().devices),
                         .progress = {.output = stderr, .unit = "impressions"}});
  std::string resumed_from_;
  Trainer trainer_;
};

}  // namespace

Result train(const Options& options) { return Run(options).recorded_train(); }

}  // namespace clicks
