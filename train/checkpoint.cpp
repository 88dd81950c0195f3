// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoint.h>

#include <tutti/backend/error.h>
#include <tutti/train/tensor_file.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOptimizerPrefix = "optimizer:";
constexpr const char* kVersionKey = "tutti.checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kOptimizerKey = "tutti.optimizer";
constexpr std::string_view kAveragePrefix = "average:";
constexpr const char* kAverageKey = "tutti.average";
constexpr const char* kNotesKey = "tutti.notes";

NamedTensors tensors_of(Module& module) {
  NamedTensors tensors = module.named_parameters();
  for (auto& named : module.named_buffers()) tensors.push_back(std::move(named));
  return tensors;
}

std::string state_name(std::size_t position, const std::string& name) {
  return fmt::format("{}{}:{}", kOptimizerPrefix, position, name);
}

void add_optimizer(TensorFile& file, const Optimizer& optimizer) {
  const Optimizer::State state = optimizer.state();
  Json parameters = Json::array();
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    Json names = Json::array();
    for (const auto& [name, array] : state.parameters[i].arrays) {
      names.push_back(name);
      file.arrays.emplace_back(state_name(i, name), array);
    }
    parameters.push_back(
        {{"steps", state.parameters[i].steps}, {"arrays", std::move(names)}, {"group", state.parameters[i].group}});
  }
  file.metadata[kOptimizerKey] =
      Json{{"steps", state.steps}, {"learning_rates", state.learning_rates}, {"parameters", std::move(parameters)}}
          .dump();
}

std::string average_name(std::size_t position) { return fmt::format("{}{}", kAveragePrefix, position); }

void add_average(TensorFile& file, const WeightAverage& average) {
  for (std::size_t i = 0; i < average.averages().size(); ++i)
    file.arrays.emplace_back(average_name(i), average.averages()[i]);
  file.metadata[kAverageKey] = Json{{"updates", average.updates()}, {"parameters", average.averages().size()}}.dump();
}

bool is_reserved(const std::string& name) {
  return name.starts_with(kOptimizerPrefix) || name.starts_with(kAveragePrefix);
}

/// The file's arrays by name; what is taken out is accounted for.
class Contents {
 public:
  explicit Contents(const std::string& path) : path_(path), file_(read_tensor_file(path)) {
    for (auto& [name, array] : file_.arrays) arrays_.emplace(std::move(name), std::move(array));
  }

  Array take(const std::string& name) {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) raise<DataError>("[checkpoint] {} has no \"{}\"", path_, name);
    return std::move(arrays_.extract(found).mapped());
  }
  const std::string& text(const char* key) const {
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) raise<DataError>("[checkpoint] {} has no {} in its metadata", path_, key);
    return found->second;
  }
  bool has_text(const char* key) const { return file_.metadata.contains(key); }
  const std::string& path() const { return path_; }

  /// What is left must be state that nobody asked for.
  void check_nothing_unknown() const {
    for (const auto& [name, array] : arrays_)
      if (!is_reserved(name))
        raise<DataError>("[checkpoint] {} holds \"{}\", which the module does not have", path_, name);
  }

 private:
  std::string path_;
  TensorFile file_;
  std::unordered_map<std::string, Array> arrays_;
};

std::vector<Array> take_values(Contents& contents, const NamedTensors& tensors) {
  std::vector<Array> values;
  for (const auto& [name, tensor] : tensors) {
    const Array value = contents.take(name);
    if (value.shape() != tensor.shape() || value.dtype() != tensor.dtype())
      raise<DataError>("[checkpoint] {}: \"{}\" is {} {} in the file, {} {} in the module", contents.path(), name,
                       to_string(value.shape()), to_string(value.dtype()), to_string(tensor.shape()),
                       to_string(tensor.dtype()));
    values.push_back(value.to(tensor.device()));
  }
  return values;
}

Optimizer::State take_state(Contents& contents) {
  if (!contents.has_text(kOptimizerKey))
    raise<DataError>("[checkpoint] {} was saved without an optimizer", contents.path());
  const Json json = Json::parse(contents.text(kOptimizerKey));
  Optimizer::State state;
  state.steps = json.at("steps").get<std::int64_t>();
  if (json.contains("learning_rates"))
    state.learning_rates = json.at("learning_rates").get<std::vector<double>>();
  else  // written before there were groups
    state.learning_rates = {json.at("learning_rate").get<double>()};
  for (const Json& parameter : json.at("parameters")) {
    const std::size_t position = state.parameters.size();
    Optimizer::ParameterState& one = state.parameters.emplace_back();
    one.steps = parameter.at("steps").get<std::int64_t>();
    one.group = parameter.value("group", std::size_t{0});
    for (const Json& entry : parameter.at("arrays")) {
      const auto name = entry.get<std::string>();
      one.arrays.emplace_back(name, contents.take(state_name(position, name)));
    }
  }
  return state;
}

WeightAverage::State take_average(Contents& contents) {
  if (!contents.has_text(kAverageKey))
    raise<DataError>("[checkpoint] {} was saved without an average of weights", contents.path());
  const Json json = Json::parse(contents.text(kAverageKey));
  WeightAverage::State state{json.at("updates").get<std::int64_t>(), {}};
  for (std::size_t i = 0; i < json.at("parameters").get<std::size_t>(); ++i)
    state.averages.push_back(contents.take(average_name(i)));
  return state;
}

/// Both or none.
void load_states(Optimizer* optimizer, const Optimizer::State& optimizer_state, WeightAverage* average,
                 const WeightAverage::State& average_state) {
  WeightAverage::State before;
  if (average) {
    before = average->state();
    average->load_state(average_state);
  }
  try {
    if (optimizer) optimizer->load_state(optimizer_state);
  } catch (...) {
    if (average) average->load_state(before);
    throw;
  }
}

}  // namespace

void save_checkpoint(const std::string& path, Module& module, const Optimizer* optimizer, const CheckpointNotes& notes,
                     const WeightAverage* average) {
  TensorFile file;
  for (const auto& [name, tensor] : tensors_of(module)) {
    if (is_reserved(name))
      raise<DataError>("[checkpoint] {}: the name \"{}\" is reserved for the state of optimizers and averages", path,
                       name);
    file.arrays.emplace_back(name, tensor.array());
  }
  if (optimizer) add_optimizer(file, *optimizer);
  if (average) add_average(file, *average);
  file.metadata[kVersionKey] = kVersion;
  file.metadata[kNotesKey] = Json(notes).dump();
  write_tensor_file(path, file);
}

CheckpointNotes load_checkpoint(const std::string& path, Module& module, Optimizer* optimizer,
                                WeightAverage* average) try {
  Contents contents(path);
  if (contents.text(kVersionKey) != kVersion)
    raise<DataError>("[checkpoint] {} is of version {}, this program reads version {}", path,
                     contents.text(kVersionKey), kVersion);
  NamedTensors tensors = tensors_of(module);
  std::vector<Array> values = take_values(contents, tensors);
  auto notes = Json::parse(contents.text(kNotesKey)).get<CheckpointNotes>();
  Optimizer::State state;
  if (optimizer) state = take_state(contents);
  WeightAverage::State average_state;
  if (average) average_state = take_average(contents);
  contents.check_nothing_unknown();

  // Whatever can fail has been done, but for the states, which change nothing when they throw.
  try {
    load_states(optimizer, state, average, average_state);
  } catch (const Error& error) {
    raise<DataError>("[checkpoint] {} does not fit the {}: {}", path, optimizer ? "optimizer" : "average",
                     error.what());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].second.set_array(std::move(values[i]));
  return notes;
} catch (const Json::exception& error) {
  raise<DataError>("[checkpoint] {}: malformed metadata: {}", path, error.what());
}

}  // namespace tutti
