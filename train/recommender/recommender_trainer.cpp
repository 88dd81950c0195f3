// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/recommender_trainer.h>

#include <tutti/backend/raise.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/parameter_selection.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace tutti {
namespace {

void check_names(const std::vector<std::string>& patterns, const NamedTensors& tensors) {
  for (const std::string& pattern : patterns)
    if (std::ranges::none_of(tensors, [&](const auto& named) { return name_matches(named.first, pattern); }))
      raise("[recommender] params_not_save has \"{}\", which names nothing in the model", pattern);
}

/// A table "users.weight" is in checkpoints as "users.ids", "users.rows" and so on.
CheckpointFilter save_filter(const TrainingArguments& arguments, Module& model) {
  const NamedTensors tensors = model.named_members();
  check_names(arguments.saver().params_not_save, tensors);
  const NamedTables tables = sparse_parameters(model);
  CheckpointFilter filter;
  for (const auto& [name, tensor] : tensors) {
    if (arguments.saves(name)) continue;
    const bool is_table = std::ranges::any_of(
        tables, [&, &weight = tensor](const auto& table) { return table.second->weight().is_same(weight); });
    const std::string_view stem(name.data(), is_table ? name.size() - std::string_view("weight").size() : name.size());
    filter.exclude.push_back(fmt::format("model/{}{}", stem, is_table ? "*" : ""));
  }
  return filter;
}

}  // namespace

LearnerOptions learner_options(const TrainingArguments& arguments, LearnerOptions options) {
  validate(arguments);
  options.step.accumulation = arguments.gradient_accumulation_steps;
  options.step.metrics_every = arguments.log_steps;
  switch (arguments.mixed_precision) {
    case MixedPrecision::none: break;
    case MixedPrecision::bf16: options.step.autocast = DType::bf16; break;
    case MixedPrecision::fp16:
      options.step.autocast = DType::f16;
      if (!options.scaling) options.scaling.emplace();
      break;
  }
  return options;
}

CheckpointFolderOptions checkpoint_folder_options(const TrainingArguments& arguments, Module& model, bool windowed) {
  const SaverOptions saver = arguments.saver();
  const CheckpointSaveArguments when = arguments.checkpoint_save();
  return {.every_steps = when.save_steps.value_or(0),
          .every_epochs = when.save_every_n_epochs.value_or(0),
          .every_windows = windowed ? when.save_every_n_windows.value_or(0) : 0,
          .at_end = when.save_end,
          .max_to_keep = saver.max_to_keep,
          .save_concurrency = static_cast<std::size_t>(saver.save_concurrency_per_rank),
          .save_filter = save_filter(arguments, model)};
}

CheckpointLoadArguments load_arguments(const TrainingArguments& arguments, bool windowed) {
  CheckpointLoadArguments when = arguments.checkpoint_load();
  if (!windowed) when.load_update_windows.reset();
  return when;
}

std::vector<ModelBankSource> dynamic_sources(const SaverOptions& saver) {
  std::vector<ModelBankSource> sources;
  std::ranges::copy_if(saver.model_bank, std::back_inserter(sources), &ModelBankSource::dynamic);
  return sources;
}

std::vector<std::unique_ptr<EventWriter>> log_writers(const std::string& folder, std::optional<std::FILE*> log,
                                                      ProgressBar* bar) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // the file's error says more
  std::vector<std::unique_ptr<EventWriter>> writers;
  writers.push_back(std::make_unique<JsonLinesWriter>(folder + "/metrics.jsonl", LineFile::Mode::append));
  if (log != nullptr)
    writers.push_back(
        std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.output = log.value_or(nullptr), .bar = bar}));
  return writers;
}

}  // namespace tutti
