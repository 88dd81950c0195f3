// SPDX-License-Identifier: Apache-2.0
// What a model keeps: its parameters and buffers, its hash tables, and where its dropout layers draw.
#include <tutti/train/checkpoints/part_state.h>

#include <tutti/backend/raise.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/checkpoints/random_state.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

// The leaves of hash tables have no rows: the tables are kept by id.
NamedTensors tensors_of(Module& module) {
  NamedTensors tensors = module.named_members();
  const NamedTables tables = sparse_parameters(module);
  std::erase_if(tensors, [&](const auto& named) {
    return std::ranges::any_of(tables, [&](const auto& table) { return table.second->weight().is_same(named.second); });
  });
  return tensors;
}

std::set<Device> devices_of(Module& module) {
  std::set<Device> devices;
  for (const auto& [name, tensor] : module.named_members()) devices.insert(tensor.device());
  return devices;
}

}  // namespace

std::string random_text(const std::vector<Module*>& replicas) {
  Json random = Json::object();
  for (Module* const replica : replicas) {
    const auto layers = dropout_layers(*replica);
    for (const Device device : devices_of(*replica))
      for (const auto& [name, layer] : layers)
        random[name].emplace(std::to_string(layer->number_of(device)), generator_text(layer->generator_of(device)));
  }
  return random.empty() ? "" : write_json(random);
}

std::string joined_random_texts(std::span<const std::string> texts) try {
  Json all = Json::object();
  for (const std::string& text : texts)
    if (!text.empty()) all.merge_patch(parse_json<Json>(text));
  return all.empty() ? "" : write_json(all);
} catch (const Json::exception& error) {
  raise<DataError>("[checkpoint] these are no random states of processes: {}", error.what());
}

namespace {

Install prepare_random(Module& module, const Json& random) {
  std::vector<std::pair<Generator*, Generator>> places;
  const auto layers = dropout_layers(module);
  const std::set<Device> devices = devices_of(module);
  if (devices.empty()) return [] {};
  for (const auto& [name, layer] : layers)
    if (!random.contains(name)) raise<DataError>("it has no random state for the dropout layer \"{}\"", name);
  for (const auto& [name, by_device] : random.items()) {
    const auto layer = layers.find(name);
    if (layer == layers.end())
      raise<DataError>("it holds random state for \"{}\", a dropout layer that the module does not have", name);
    const auto states = by_device.get<std::map<std::string, std::string>>();
    for (const Device device : devices) {
      const auto state = states.find(std::to_string(layer->second->number_of(device)));
      if (state != states.end())
        places.emplace_back(&layer->second->generator_of(device), parse_generator(state->second));
    }
  }
  return [places = std::move(places)] {
    for (const auto& [place, loaded] : places) *place = loaded;
  };
}

/// What a state holds, less what has been taken from it.
using Given = std::map<std::string, Array, std::less<>>;

/// The module's tensors and what becomes of them; undefined for those that keep what they have.
struct Values {
  NamedTensors tensors;
  std::vector<Array> arrays;
};

Values values_for(Module& module, const std::set<std::string>& left_out, Given& given) {
  Values values{tensors_of(module), {}};
  for (const auto& [name, tensor] : values.tensors) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!left_out.contains(name)) raise<DataError>("it has no \"{}\"", name);
      values.arrays.emplace_back();
      continue;
    }
    const Array value = std::move(given.extract(found).mapped());
    if (value.shape() != tensor.shape() || value.dtype() != tensor.dtype())
      raise<DataError>("\"{}\" is {} {} in the file, {} {} in the module", name, to_string(value.shape()),
                       to_string(value.dtype()), to_string(tensor.shape()), to_string(tensor.dtype()));
    // Replicas may not share it.
    values.arrays.push_back(value.device() == tensor.device() ? value.copy() : value.to(tensor.device()));
  }
  return values;
}

Install prepare_values(Module& module, const PartState& state) {
  Given given(state.arrays.begin(), state.arrays.end());
  Values values = values_for(module, state.left_out, given);
  Install tables = prepare_load_tables(module, {given.begin(), given.end()}, state.left_out);
  return [values = std::move(values), tables = std::move(tables)] {
    for (std::size_t i = 0; i < values.tensors.size(); ++i)
      if (values.arrays[i].defined()) Tensor(values.tensors[i].second).set_array(values.arrays[i]);
    tables();
  };
}

}  // namespace

PartState part_state(const std::vector<Module*>& replicas) {
  PartState state;
  for (const auto& [name, tensor] : tensors_of(*replicas.at(0))) state.arrays.emplace_back(name, tensor.array().copy());
  for (auto& named : save_tables(*replicas.front())) state.arrays.push_back(std::move(named));
  state.text = random_text(replicas);
  return state;
}

Install prepare_part(const std::vector<Module*>& replicas, const PartState& state) try {
  const Json random = state.text.empty() ? Json() : parse_json<Json>(state.text);
  std::vector<Install> installs;
  for (Module* const replica : replicas) {
    installs.push_back(prepare_values(*replica, state));
    if (!random.is_null()) installs.push_back(prepare_random(*replica, random));
  }
  return in_order(std::move(installs));
} catch (const Json::exception& error) {
  raise<DataError>("malformed random state: {}", error.what());
}

}  // namespace tutti
