// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/recommender/model_bank.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

enum class MixedPrecision : std::uint8_t { none, bf16, fp16 };
std::string_view to_string(MixedPrecision) noexcept;  ///< "none", "bf16", "fp16"

/// Tells whether a checkpoint keeps a tensor of this name.
using SaveFilter = std::function<bool(const std::string& name)>;

/// Folder of the checkpoints, and what of a model they keep.
struct SaverOptions {
  std::string output_dir = "output_dir";
  std::vector<ModelBankSource> model_bank = {};
  std::int64_t max_to_keep = 5;
  std::int64_t save_concurrency_per_rank = 4;
  std::vector<std::string> params_not_save = {};
  SaveFilter save_filter_fn = {};
};

/// Moments at which checkpoints are saved; nothing: never for that reason.
struct CheckpointSaveArguments {
  std::optional<std::int64_t> save_steps = 1000;
  std::optional<std::int64_t> save_every_n_windows = 1;
  std::optional<std::int64_t> save_every_n_epochs = std::nullopt;
  bool save_end = true;
};

/// Moments at which the dynamic sources of the model bank are loaded again; nothing: never for that reason.
struct CheckpointLoadArguments {
  std::optional<std::int64_t> load_update_steps = std::nullopt;
  std::optional<std::int64_t> load_update_windows = 1;
  std::optional<std::int64_t> load_update_epochs = std::nullopt;
};

/// How a model is trained: what a recommender's Trainer is given. Names and defaults are those of RecIS.
struct TrainingArguments {
  std::int64_t gradient_accumulation_steps = 1;            ///< micro-batches in each step of the optimizers
  std::string output_dir = "output_dir";                   ///< folder of checkpoints and logs
  std::vector<ModelBankSource> model_bank = {};            ///< sources of the values that the model begins with
  std::int64_t log_steps = 100;                            ///< steps between two lines of the log
  std::optional<std::int64_t> train_steps = std::nullopt;  ///< most steps in each epoch or window; nothing: all data
  std::int64_t train_epoch = 1;
  std::optional<std::int64_t> eval_steps = std::nullopt;  ///< most steps in each evaluation; nothing: all data
  std::optional<std::int64_t> save_steps = 1000;
  std::int64_t max_to_keep = 5;  ///< checkpoints
  std::int64_t save_concurrency_per_rank = 4;
  std::optional<std::int64_t> save_every_n_windows = 1;
  std::optional<std::int64_t> save_every_n_epochs = std::nullopt;
  bool save_end = true;
  std::optional<std::int64_t> load_update_steps = std::nullopt;
  std::optional<std::int64_t> load_update_windows = 1;
  std::optional<std::int64_t> load_update_epochs = std::nullopt;
  std::vector<std::string> params_not_save = {};  ///< patterns of names
  SaveFilter save_filter_fn = {};                 ///< not in JSON
  /// Options in place of the fields above that they have.
  std::optional<SaverOptions> saver_option = std::nullopt;
  std::optional<CheckpointSaveArguments> ckpt_save_arg = std::nullopt;
  std::optional<CheckpointLoadArguments> ckpt_load_arg = std::nullopt;
  MixedPrecision mixed_precision = MixedPrecision::none;
  std::optional<std::int64_t> window_iter = std::nullopt;  ///< windows at most, in each epoch

  // --- what holds in the end
  SaverOptions saver() const;
  CheckpointSaveArguments checkpoint_save() const;
  CheckpointLoadArguments checkpoint_load() const;
  /// True if SaverOptions' patterns and filter keep a tensor of this name.
  bool saves(const std::string& name) const;
};

/// Throws Error naming the first field that is out of range, its value and the range.
void validate(const TrainingArguments&);

/// One object, indented; a field that holds nothing is null. What cannot be written, a function, is left out.
std::string to_json(const TrainingArguments&);
/// Fields that are not there have their defaults. Validated. Throws DataError naming the field, its value and what it
/// must be, for one that is unknown, of a wrong type or out of range.
TrainingArguments training_arguments_from_json(std::string_view text);

}  // namespace tutti
