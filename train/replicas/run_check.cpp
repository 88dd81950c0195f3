// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/run_check.h>

#include <tutti/backend/raise.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/train/loop/learning_rates.h>
#include <tutti/train/replicas/group_texts.h>
#include <tutti/train/replicas/joined_texts.h>

#include <algorithm>

namespace tutti {
namespace {

std::string count_text(std::int64_t count) { return count == kUnlimited ? "unlimited" : std::to_string(count); }

std::string text_of(const Optimizer& optimizer) {
  const std::string options = optimizer.options_of_groups();
  return (optimizer.kind().empty() ? "of a kind without a name" : optimizer.kind()) +
         (options.empty() ? "" : " (" + options + ")");
}

const char* flag_text(bool flag) { return flag ? "true" : "false"; }

std::string bound_text(const std::optional<double>& bound) { return bound ? fmt::format("{}", *bound) : "none"; }

/// What a device has told: its name, then names and values of settings by turns.
struct ToldSettings {
  explicit ToldSettings(const std::string& text) : words(split_texts(text)) {}

  const std::string& device() const { return words.at(0); }
  std::string setting(std::size_t number) const { return word(1 + 2 * number); }
  std::string value(std::size_t number) const { return word(2 + 2 * number); }
  std::size_t count() const { return words.size() / 2; }

  std::vector<std::string> words;

 private:
  std::string word(std::size_t place) const { return place < words.size() ? words[place] : "nothing"; }
};

}  // namespace

RunSettings settings_of_run(const EagerTrainerBase& trainer) {
  const TrainingLimits& limits = trainer.limits();
  const EvaluationPlan& plan = trainer.plan();
  const EagerOptions& options = trainer.options();
  const Optimizer& optimizer = trainer.optimizer();
  const Optimizer* const sparse = options.sparse_optimizer;
  return {
      {"TrainingLimits::steps", count_text(limits.steps)},
      {"TrainingLimits::epochs", count_text(limits.epochs)},
      {"TrainingLimits::steps_per_window", count_text(limits.steps_per_window)},
      {"TrainingLimits::windows_per_epoch", count_text(limits.windows_per_epoch)},
      {"EvaluationPlan::every_steps", count_text(plan.every_steps)},
      {"EvaluationPlan::every_epochs", count_text(plan.every_epochs)},
      {"EvaluationPlan::every_windows", count_text(plan.every_windows)},
      {"EvaluationPlan::steps", count_text(plan.steps)},
      {"the step at which it begins", count_text(trainer.iteration())},
      {"the epoch in which it begins", count_text(trainer.epoch())},
      {"the optimizer", text_of(optimizer)},
      {"the learning rate", text_of_rates(optimizer)},
      {"the sparse optimizer", sparse == nullptr ? "none" : text_of(*sparse)},
      {"the sparse optimizer's learning rate", sparse == nullptr ? "none" : text_of_rates(*sparse)},
      {"the gradient scaler's scale", options.scaler == nullptr ? "none" : fmt::format("{}", options.scaler->scale())},
      {"EagerOptions::autocast", std::string(to_string(options.autocast))},
      {"EagerOptions::pass_empty_batches", flag_text(options.pass_empty_batches)},
      {"EagerOptions::whole_updates", flag_text(options.whole_updates)},
      {"EagerOptions::accumulation", count_text(options.accumulation)},
      {"EagerOptions::max_norm", bound_text(options.max_norm)},
      {"EagerOptions::max_value", bound_text(options.max_value)},
      {"EagerOptions::metrics_every", count_text(options.metrics_every)},
      {"LearnerOptions::evaluation", options.evaluate_together ? "all" : "main"}};
}

RunSettings settings_of_folder(const CheckpointFolderOptions& options) {
  return {{"CheckpointFolderOptions::every_steps", count_text(options.every_steps)},
          {"CheckpointFolderOptions::every_epochs", count_text(options.every_epochs)},
          {"CheckpointFolderOptions::every_windows", count_text(options.every_windows)},
          {"CheckpointFolderOptions::at_end", flag_text(options.at_end)}};
}

void check_run(GradientSync& group, Device device, const std::string& name, const RunSettings& own) {
  std::vector<std::string> words{name};
  for (const auto& [setting, value] : own) words.insert(words.end(), {setting, value});
  std::vector<ToldSettings> all;
  for (const std::string& text : gather_texts(group, device, join_texts(words), "the settings of a run"))
    all.emplace_back(text);
  const ToldSettings& first = all.front();
  for (const ToldSettings& other : all) {
    if (std::ranges::equal(first.words.begin() + 1, first.words.end(), other.words.begin() + 1, other.words.end()))
      continue;
    await_gathered(group, device);
    std::size_t number = 0;
    while (first.setting(number) == other.setting(number) && first.value(number) == other.value(number)) ++number;
    if (first.setting(number) != other.setting(number))
      raise<Error>("[learner] {} has {} settings of its run, {} has {}: a folder for checkpoints, on all or on none?",
                   first.device(), first.count(), other.device(), other.count());
    raise<Error>("[learner] {} is {} on {} and {} on {}: all processes need the same", first.setting(number),
                 first.value(number), first.device(), other.value(number), other.device());
  }
}

}  // namespace tutti
