// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/checkpoints/part_state.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <nlohmann/json.hpp>

#include <string_view>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersionKey = "tutti.checkpoint";
constexpr const char* kFileVersion = "1";
constexpr const char* kNotesKey = "tutti.notes";

/// Where a part's arrays and text are in the file.
struct Place {
  std::string_view prefix;
  const char* key;
};
constexpr Place kModule{"", "tutti.module"};
constexpr Place kOptimizer{"optimizer:", "tutti.optimizer"};
constexpr Place kAverage{"average:", "tutti.average"};

const Place& place_of(std::string_view name) {
  for (const Place* place : {&kOptimizer, &kAverage})
    if (name.starts_with(place->prefix)) return *place;
  return kModule;
}

void add_part(TensorFile& file, const Place& place, PartState part) {
  for (auto& [name, array] : part.arrays)
    file.arrays.emplace_back(fmt::format("{}{}", place.prefix, name), std::move(array));
  if (!part.text.empty()) file.metadata[place.key] = std::move(part.text);
}

PartState part_of(const TensorFile& file, const Place& place) {
  PartState part;
  for (const auto& [name, array] : file.arrays)
    if (&place_of(name) == &place) part.arrays.emplace_back(name.substr(place.prefix.size()), array);
  if (const auto text = file.metadata.find(place.key); text != file.metadata.end()) part.text = text->second;
  return part;
}

const std::string& text(const std::string& path, const TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) raise<DataError>("[checkpoint] {} has no {} in its metadata", path, key);
  return found->second;
}

template <class Part> Install prepare(const std::string& path, const TensorFile& file, const Place& place,
                                      std::string_view what, Part& part) {
  if (&place != &kModule && !file.metadata.contains(place.key))
    raise<DataError>("[checkpoint] {} was saved without an {}", path, what);
  try {
    return prepare_part(part, part_of(file, place));
  } catch (const Error& error) {
    raise<DataError>("[checkpoint] {} does not fit the {}: {}", path, what, error.what());
  }
}

}  // namespace

void save_checkpoint(const std::string& path, Module& module, const Optimizer* optimizer, const CheckpointNotes& notes,
                     const WeightAverage* average) {
  TensorFile file;
  add_part(file, kModule, part_state(module));
  for (const auto& [name, array] : file.arrays)
    if (&place_of(name) != &kModule)
      raise<DataError>("[checkpoint] {}: the name \"{}\" is reserved for the state of optimizers and averages", path,
                       name);
  if (optimizer != nullptr) add_part(file, kOptimizer, part_state(*optimizer));
  if (average != nullptr) add_part(file, kAverage, part_state(*average));
  file.metadata[kVersionKey] = kFileVersion;
  file.metadata[kNotesKey] = write_json(Json(notes));
  write_tensor_file(path, file);
}

CheckpointNotes load_checkpoint(const std::string& path, Module& module, Optimizer* optimizer,
                                WeightAverage* average) try {
  const TensorFile file = read_tensor_file(path);
  if (text(path, file, kVersionKey) != kFileVersion)
    raise<DataError>("[checkpoint] {} is of version {}, this program reads version {}", path,
                     text(path, file, kVersionKey), kFileVersion);
  auto notes = parse_json<Json>(text(path, file, kNotesKey)).get<CheckpointNotes>();
  std::vector<Install> installs = {prepare(path, file, kModule, "module", module)};
  if (optimizer != nullptr) installs.push_back(prepare(path, file, kOptimizer, "optimizer", *optimizer));
  if (average != nullptr) installs.push_back(prepare(path, file, kAverage, "average of weights", *average));
  for (const Install& install : installs) install();
  return notes;
} catch (const Json::exception& error) {
  raise<DataError>("[checkpoint] {}: malformed metadata: {}", path, error.what());
}

}  // namespace tutti
