// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/recommender/model_bank.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/messages/replica_check.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/parameter_selection.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

namespace tutti {
namespace {

std::vector<std::string> files_of(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, failed))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  if (files.empty()) raise<DataError>("[model_bank] folder {} has no .safetensors file", path);
  std::ranges::sort(files);
  return files;
}

std::string renamed(const std::string& name, const ModelBankSource& source) {
  for (const auto& [from, to] : source.rename)
    if (name.starts_with(from)) return to + name.substr(from.size());
  return name;
}

using SourceArrays = std::map<std::string, Array>;

/// The arrays of a source by the names that the module has for them.
SourceArrays read_source(const ModelBankSource& source, bool mapped) {
  SourceArrays arrays;
  for (const std::string& file : files_of(source.path))
    for (auto& [name, array] : read_safetensors(file, {.map = mapped, .skip_unknown_types = !source.strict}).arrays)
      if (const std::string own = renamed(name, source); !arrays.emplace(own, array).second)
        raise<DataError>("[model_bank] {} has a second \"{}\", there called \"{}\"", file, own, name);
  return arrays;
}

bool matches_any(std::string_view name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return name_matches(name, pattern); });
}

/// One source's part in the loading of one module: found first, installed later.
class SourceLoading {
 public:
  SourceLoading(Module& module, const ModelBankSource& source, const SourceArrays& arrays)
      : module_(module), source_(source) {
    check_patterns();
    for (const auto& [name, table] : sparse_parameters(module)) find_table(name, *table, arrays);
    for (const auto& [name, value] : module_state(module))
      if (is_chosen(name) && !tables_.contains(name)) find_tensor(name, value, arrays);
    if (source.strict && !(report_.missing.empty() && report_.mismatched.empty()))
      raise<DataError>("[model_bank] {} does not fit the module:\n{}", source.path,
                       to_string(StateReport{report_.missing, {}, report_.mismatched}));
  }

  void install() {
    load_state(module_, found_, {.strict = false});
    for (const auto& load : table_loads_) load();
  }
  const ModelBankReport& report() const { return report_; }
  /// Text of what it installs, but for values.
  std::string choice() const {
    return fmt::format("loads {}; lacks {}; leaves {}", fmt::join(report_.loaded, ", "),
                       fmt::join(report_.missing, ", "), fmt::join(report_.mismatched, ", "));
  }

 private:
  bool is_chosen(std::string_view name) const {
    return matches_any(name, source_.load) && !matches_any(name, source_.exclude);
  }

  void check_patterns() const {
    for (const std::string& pattern : source_.load)
      if (const NamedArrays state = module_state(module_);
          std::ranges::none_of(state, [&](const auto& named) { return name_matches(named.first, pattern); }))
        raise<DataError>("[model_bank] \"{}\", to be loaded from {}, names nothing in the module", pattern,
                         source_.path);
  }

  void find_tensor(const std::string& name, const Array& own, const SourceArrays& arrays) {
    const auto found = arrays.find(name);
    if (found == arrays.end()) return report_.missing.push_back(name);
    const Array& given = found->second;
    const bool converts = given.dtype() == own.dtype() || (is_floating(given.dtype()) && is_floating(own.dtype())) ||
                          (is_integral(given.dtype()) && is_integral(own.dtype()));
    if (given.shape() != own.shape() || !converts)
      return report_.mismatched.push_back(fmt::format("{}: {} {} given, {} {} in the module", name,
                                                      to_string(given.dtype()), to_string(given.shape()),
                                                      to_string(own.dtype()), to_string(own.shape())));
    found_.emplace_back(name, given);
    report_.loaded.push_back(name);
  }

  void find_table(const std::string& path, HashTable& table, const SourceArrays& arrays) {
    const std::string prefix = path.empty() ? "" : path + ".";
    const std::string name = prefix + "weight";
    tables_.emplace(name);
    if (!is_chosen(name)) return;
    HashTable::NamedArrays saved;
    for (const std::string_view part : {"ids", "counts", "last", "rows", "waiting", "updates"})
      if (const auto found = arrays.find(prefix + std::string(part)); found != arrays.end())
        saved.emplace_back(part, found->second);
    if (saved.empty()) return report_.missing.push_back(name);
    for (auto at = arrays.lower_bound(prefix + "state.");
         at != arrays.end() && at->first.starts_with(prefix + "state."); ++at)
      saved.emplace_back(at->first.substr(prefix.size()), at->second);
    try {
      table_loads_.push_back(table.prepare_load(saved));
      report_.loaded.push_back(name);
    } catch (const DataError& error) {
      report_.mismatched.push_back(fmt::format("{}: {}", name, error.what()));
    }
  }

  Module& module_;
  const ModelBankSource& source_;
  std::set<std::string> tables_;  // names of the leaves that stand for them
  NamedArrays found_;
  std::vector<std::function<void()>> table_loads_;
  ModelBankReport report_;
};

}  // namespace

std::vector<ModelBankReport> load_model_bank(Module& module, std::span<const ModelBankSource> sources,
                                             std::span<const LoadHook> hooks) {
  Module* const replicas[] = {&module};
  return load_model_bank(replicas, sources, hooks);
}

std::vector<ModelBankReport> load_model_bank(std::span<Module* const> replicas,
                                             std::span<const ModelBankSource> sources, std::span<const LoadHook> hooks,
                                             const std::function<void(std::string)>& before_change) {
  for (const ModelBankSource& source : sources)
    for (const LoadHook& hook : hooks)
      if (hook.before) hook.before(source);
  std::vector<std::vector<SourceLoading>> loadings(sources.size());
  ReplicaDigest read;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SourceArrays arrays = read_source(sources[i], !before_change);
    for (Module* const replica : replicas) loadings[i].emplace_back(*replica, sources[i], arrays);
    if (!before_change) continue;
    for (const auto& [name, array] : arrays)
      read.push_back(
          {fmt::format("{} {} {}", name, to_string(array.dtype()), to_string(array.shape())), digest_of(array)});
    read.push_back({loadings[i].front().choice(), {}});
  }
  if (before_change) before_change(to_string(digest_of(std::span<const NamedDigest>(read))));
  std::vector<ModelBankReport> reports;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (SourceLoading& loading : loadings[i]) loading.install();
    reports.push_back(loadings[i].front().report());
    for (const LoadHook& hook : hooks)
      if (hook.after) hook.after(sources[i], reports.back());
  }
  return reports;
}

}  // namespace tutti
