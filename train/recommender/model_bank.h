// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/module_state.h>
#include <tutti/nn/module.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// One source of a model bank: older models that a new one takes some of its values from. In a pattern, * stands for
/// any characters and ? for one (nn/parameter_selection.h).
struct ModelBankSource {
  std::string path;                       ///< a safetensors file, or a folder: all such files in it, a checkpoint's
  std::vector<std::string> load = {"*"};  ///< the module's parameters, buffers and tables ("users.weight") to load
  std::vector<std::string> exclude = {};  ///< patterns of names in `load` to leave out
  /// {"old.", "new."}: the file's names that begin with the first begin with the second in the module. The first that
  /// fits is used: {"model/", ""} for the part "model" of a checkpoint.
  std::vector<std::pair<std::string, std::string>> rename = {};
  bool strict = true;    ///< all that is chosen must be there and fit; else what fits is loaded, the rest reported
  bool dynamic = false;  ///< true: loaded again during training (TrainingArguments::load_update_...)
  bool operator==(const ModelBankSource&) const = default;
};

/// Tensors that a source gave, by the module's names.
struct ModelBankReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     ///< chosen, but not in the files
  std::vector<std::string> mismatched;  ///< "fc.weight: f32 [3, 2] given, f32 [2, 3] in the module"
};

/// Called around each source, in each process: to get a file, under a name of the process's own, or to freeze what was
/// loaded. `before` runs for all sources first; what they throw ends the loading, before anything is changed in the
/// case of `before`.
struct LoadHook {
  std::function<void(const ModelBankSource&)> before = {};
  std::function<void(const ModelBankSource&, const ModelBankReport&)> after = {};
};

/// Loads from the sources in their order, later ones over earlier ones, as `load_state` does for plain tensors and
/// HashTable::load for tables (`save_tables` wrote "users.ids" and so on). What files have beyond what was chosen is
/// left alone. Parameters keep their identity. Throws DataError naming the file and every tensor that is missing or
/// does not fit, of strict sources; a pattern of `load` that names nothing in the module; and a file that cannot be
/// read. Nothing is changed then.
std::vector<ModelBankReport> load_model_bank(Module&, std::span<const ModelBankSource>,
                                             std::span<const LoadHook> hooks = {});
/// Loads into all replicas of a model, on any devices, as into one module; each file is read once, and hooks are called
/// once. `before_change`, unless it is empty, gets a digest of what was read and what of it is chosen, before anything
/// is changed; what it throws ends the loading. The files may change from then on.
std::vector<ModelBankReport> load_model_bank(std::span<Module* const> replicas, std::span<const ModelBankSource>,
                                             std::span<const LoadHook> hooks = {},
                                             const std::function<void(std::string digest)>& before_change = {});

}  // namespace tutti
