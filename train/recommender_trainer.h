// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/schedule.h>
#include <tutti/train/hooks/iteration_timer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/model_bank_loader.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/learner.h>
#include <tutti/train/recommender/model_bank_sync.h>
#include <tutti/train/training_arguments.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

class ProgressBar;

/// Options of a RecommenderTrainer beside TrainingArguments.
struct RecommenderOptions {
  /// Its devices and how they work together. Accumulation, autocast, `metrics_every` and `scaling` are the arguments'.
  /// Written as a call: of `= {}` GCC 12 destroys the devices twice where an initializer behind it throws.
  LearnerOptions learner = LearnerOptions();
  std::optional<Schedule> dense_schedule = std::nullopt;  ///< schedule of the dense optimizer's learning rate
  std::vector<LoadHook> load_hooks = {};                  ///< hooks around each source of the model bank
  /// Gets a line every log_steps; null: none. Not owned. Default: the log sink (backend/log.h), without one standard
  /// output.
  std::optional<std::FILE*> log = std::nullopt;
  ProgressBar* bar = nullptr;  ///< makes room for the lines, where it is drawn on their terminal; not owned
};

// --- what the arguments mean; for trainers of one's own too

/// `options` with what the arguments say of steps. Validates them.
LearnerOptions learner_options(const TrainingArguments&, LearnerOptions options);
/// Options that say when checkpoints are saved, and what of the model they keep. Without windows in the data an epoch
/// is no window. Throws Error for a pattern in params_not_save that names nothing in the model.
CheckpointFolderOptions checkpoint_folder_options(const TrainingArguments&, Module& model, bool windowed);
CheckpointLoadArguments load_arguments(const TrainingArguments&, bool windowed);  ///< says when to load model banks
std::vector<ModelBankSource> dynamic_sources(const SaverOptions&);
/// metrics.jsonl in the folder, which is made, and lines to `log` unless it is null, as RecommenderOptions::log
/// says, above the bar if there is one.
std::vector<std::unique_ptr<EventWriter>> log_writers(const std::string& folder, std::optional<std::FILE*> log,
                                                      ProgressBar* bar = nullptr);

/// Trains a model with hash tables as TrainingArguments say: a DataParallelLearner with the hooks that they ask for.
///
///   RecommenderTrainer<Ranker, Clicks> trainer(ranker, {
///       .optimizer = [](Ranker& r) { return std::make_unique<AdamW>(dense_parameters(r), 1e-3); },
///       .sparse_optimizer = [](Ranker& r) { return std::make_unique<SparseAdamW>(sparse_parameters(r), 1e-3); },
///       .data = [&](std::size_t device) { return hours_of(device); },  // a WindowStream, or without windows
///       .losses = [](Ranker& r, const Clicks& c) -> Losses { return {{"loss", r.loss(c)}}; }},
///       {.output_dir = "runs/ranker", .train_epoch = 2});
///   trainer.train();
///
/// The first of `train`, `train_and_evaluate`, `evaluate` and `restore` goes on from the newest checkpoint in the
/// folder; where there is none it loads the model bank. Hooks of one's own are registered with the learner's trainers
/// before that, and are called before: schedule, timer, log, model bank, checkpoints, in this order. Used by one
/// thread, but for `stop`.
///
/// Several processes train together when each gives its trainer the GradientSync of its ProcessGroup, as with a
/// DataParallelLearner: all make the same calls, the first one writes the log and the checkpoints, and reads these for
/// all. Each reads the model bank, from files that have to be the same.
template <class M, class Item> class RecommenderTrainer {
 public:
  using Learner = DataParallelLearner<M, Item>;

  /// Throws Error for arguments out of range, and a name in params_not_save that the model does not have.
  RecommenderTrainer(const M& model, typename Learner::Parts parts, TrainingArguments arguments,
                     RecommenderOptions options = {})
      : RecommenderTrainer(nullptr, model, std::move(parts), std::move(arguments), std::move(options)) {}
  /// Trains in a group that was made for it alone, of several processes or of one; not owned. The same errors.
  RecommenderTrainer(GradientSync& group, const M& model, typename Learner::Parts parts, TrainingArguments arguments,
                     RecommenderOptions options = {})
      : RecommenderTrainer(&group, model, std::move(parts), std::move(arguments), std::move(options)) {}

  void train() {
    begin();
    learner_.train(limits());
  }
  /// Evaluates after each window, or each epoch of data without windows.
  void train_and_evaluate() {
    begin();
    EvaluationPlan plan{.steps = evaluation_steps()};
    (windowed_ ? plan.every_windows : plan.every_epochs) = 1;
    learner_.train_and_evaluate(limits(), plan);
  }
  Metrics evaluate() {
    begin();
    return learner_.evaluate(evaluation_steps());
  }
  /// Ends training on all devices before the same step; any thread.
  void stop(std::string reason) { learner_.stop(std::move(reason)); }

  /// Loads the newest checkpoint that is whole and says which; nothing: there is none. What checkpoints do not keep, or
  /// all if there are none, begins as the model bank has it. Error the second time.
  std::optional<LoadedCheckpoint> restore() {
    if (restored_) raise_message("[recommender] it was restored already: the first use does so");
    std::optional<LoadedCheckpoint> loaded;
    telling_others([&] {
      loaded = learner_.load_newest(folder_, parts_);
      if (loaded && loaded->complete) return;
      load_model_bank_together(learner_.sync(), replicas(), arguments_.saver().model_bank, options_.load_hooks);
      if (loaded) learner_.load(folder_, loaded->path, parts_);
      accept_tables();
    });
    restored_ = true;
    return loaded;
  }

  /// More to keep in checkpoints than the learner's parts. Before the first use.
  CheckpointParts& parts() noexcept { return parts_; }
  Learner& learner() noexcept { return learner_; }
  CheckpointFolder& checkpoints() noexcept { return folder_; }
  const TrainingArguments& arguments() const noexcept { return arguments_; }

 private:
  RecommenderTrainer(GradientSync* group, const M& model, typename Learner::Parts parts, TrainingArguments arguments,
                     RecommenderOptions options)
      : arguments_(std::move(arguments)),
        options_(std::move(options)),
        learner_(made_learner(group, model, std::move(parts), learner_options(arguments_, options_.learner))),
        windowed_(learner_.main().windowed()),
        folder_(arguments_.saver().output_dir, checkpoint_folder_options(arguments_, learner_.model(), windowed_)) {
    if (arguments_.window_iter && !windowed_)
      raise_message("[recommender] window_iter is " + std::to_string(*arguments_.window_iter) +
                    ", and the training data are no windows: a stream around a WindowStream hides them, what its "
                    "`open` returns may be wrapped");
    learner_.add_parts(parts_);
  }
  static Learner made_learner(GradientSync* group, const M& model, typename Learner::Parts parts,
                              LearnerOptions options) {
    if (group != nullptr) return Learner(*group, model, std::move(parts), std::move(options));
    return Learner(model, std::move(parts), std::move(options));
  }

  TrainingLimits limits() const {
    return {.epochs = arguments_.train_epoch,
            .steps_per_window = arguments_.train_steps.value_or(kUnlimited),
            .windows_per_epoch = arguments_.window_iter.value_or(kUnlimited)};
  }
  std::int64_t evaluation_steps() const { return arguments_.eval_steps.value_or(kUnlimited); }

  void begin() {
    if (!begun_ && learner_.writes())
      telling_others([&] { folder_.claim(); });  // comes before a log of another program's is touched
    if (!restored_) restore();
    if (begun_) return;
    std::vector<std::unique_ptr<EventWriter>> writers;
    if (learner_.writes())
      telling_others([&] {
        writers = log_writers(arguments_.output_dir, options_.log, options_.bar);
      });  // throws before the hooks
    begun_ = true;
    LearnerTrainer<Item>& main = learner_.main();
    if (options_.dense_schedule)
      for (std::size_t d = 0; d < learner_.devices(); ++d)
        learner_.trainer(d).register_hook(
            std::make_shared<LearningRateSchedule>(learner_.optimizer(d), *options_.dense_schedule));
    main.register_hook(std::make_shared<IterationTimer>());
    if (learner_.writes())
      main.register_hook(std::make_shared<PeriodicWriter>(std::move(writers), arguments_.log_steps));
    if (const auto sources = dynamic_sources(arguments_.saver()); !sources.empty())
      for (std::size_t d = 0; d < learner_.devices(); ++d) {
        const Device device = learner_.sync().devices()[d];
        learner_.trainer(d).register_hook(std::make_shared<ModelBankLoader>(
            [this, sources, device, d] {
              const std::vector<Module*> loaded = d == 0 ? replicas() : std::vector<Module*>();
              load_model_bank_together(learner_.sync(), device, loaded, sources, options_.load_hooks);
              if (d == 0) accept_tables();
            },
            load_arguments(arguments_, windowed_), learner_.sync(), device));
      }
    learner_.save_into(folder_, parts_);
  }

  // Other processes wait for this one's next step.
  template <class Work> void telling_others(Work work) {
    try {
      work();
    } catch (...) {
      GradientSync& group = learner_.sync();
      if (learner_.world().processes > 1) group.fail(group.devices().front(), std::current_exception());
      throw;
    }
  }
  std::vector<Module*> replicas() {
    std::vector<Module*> replicas;
    for (std::size_t d = 0; d < learner_.devices(); ++d) replicas.push_back(&learner_.replica(d));
    return replicas;
  }
  void accept_tables() {
    for (SparseOptimizer* const optimizer : learner_.sparse_optimizers()) optimizer->accept_tables();
  }

  TrainingArguments arguments_;
  RecommenderOptions options_;
  Learner learner_;
  bool windowed_;
  CheckpointParts parts_;
  CheckpointFolder folder_;  // declared after what its writers may read
  bool restored_ = false;
  bool begun_ = false;
};

}  // namespace tutti
