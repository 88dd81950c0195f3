// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/training_arguments.h>

#include <tutti/backend/raise.h>
#include <tutti/nn/parameter_selection.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <concepts>
#include <set>
#include <utility>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

// --- the fields of each struct, once: visit(name, field), and for integers visit(name, field, least)

template <class Source, class Visit>
  requires std::same_as<std::remove_const_t<Source>, ModelBankSource>
void visit_fields(Source& s, const Visit& visit) {
  visit("path", s.path);
  visit("load", s.load);
  visit("exclude", s.exclude);
  visit("rename", s.rename);
  visit("strict", s.strict);
  visit("dynamic", s.dynamic);
}

template <class Options, class Visit>
  requires std::same_as<std::remove_const_t<Options>, SaverOptions>
void visit_fields(Options& o, const Visit& visit) {
  visit("output_dir", o.output_dir);
  visit("model_bank", o.model_bank);
  visit("max_to_keep", o.max_to_keep, 1);
  visit("save_concurrency_per_rank", o.save_concurrency_per_rank, 1);
  visit("params_not_save", o.params_not_save);
}

template <class Arguments, class Visit>
  requires std::same_as<std::remove_const_t<Arguments>, CheckpointSaveArguments>
void visit_fields(Arguments& a, const Visit& visit) {
  visit("save_steps", a.save_steps, 1);
  visit("save_every_n_windows", a.save_every_n_windows, 1);
  visit("save_every_n_epochs", a.save_every_n_epochs, 1);
  visit("save_end", a.save_end);
}

template <class Arguments, class Visit>
  requires std::same_as<std::remove_const_t<Arguments>, CheckpointLoadArguments>
void visit_fields(Arguments& a, const Visit& visit) {
  visit("load_update_steps", a.load_update_steps, 1);
  visit("load_update_windows", a.load_update_windows, 1);
  visit("load_update_epochs", a.load_update_epochs, 1);
}

template <class Arguments, class Visit>
  requires std::same_as<std::remove_const_t<Arguments>, TrainingArguments>
void visit_fields(Arguments& a, const Visit& visit) {
  visit("gradient_accumulation_steps", a.gradient_accumulation_steps, 1);
  visit("output_dir", a.output_dir);
  visit("model_bank", a.model_bank);
  visit("log_steps", a.log_steps, 1);
  visit("train_steps", a.train_steps, 1);
  visit("train_epoch", a.train_epoch, 1);
  visit("eval_steps", a.eval_steps, 1);
  visit("save_steps", a.save_steps, 1);
  visit("max_to_keep", a.max_to_keep, 1);
  visit("save_concurrency_per_rank", a.save_concurrency_per_rank, 1);
  visit("save_every_n_windows", a.save_every_n_windows, 1);
  visit("save_every_n_epochs", a.save_every_n_epochs, 1);
  visit("save_end", a.save_end);
  visit("load_update_steps", a.load_update_steps, 1);
  visit("load_update_windows", a.load_update_windows, 1);
  visit("load_update_epochs", a.load_update_epochs, 1);
  visit("params_not_save", a.params_not_save);
  visit("saver_option", a.saver_option);
  visit("ckpt_save_arg", a.ckpt_save_arg);
  visit("ckpt_load_arg", a.ckpt_load_arg);
  visit("mixed_precision", a.mixed_precision);
  visit("window_iter", a.window_iter, 1);
}

constexpr MixedPrecision kPrecisions[] = {MixedPrecision::none, MixedPrecision::bf16, MixedPrecision::fp16};

template <class T>
concept Fields = requires(T& value) { visit_fields(value, [](auto&&...) {}); };

// --- writing

template <class T> Json write(const T& value) { return value; }
Json write(MixedPrecision value) { return to_string(value); }
template <Fields T> Json write(const T& value);
template <class T> Json write(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(write(value));
  return array;
}
template <class T> Json write(const std::optional<T>& value) { return value ? write(*value) : Json(nullptr); }
template <Fields T> Json write(const T& value) {
  Json object = Json::object();
  visit_fields(value, [&](const char* name, const auto& field, int = 0) { object[name] = write(field); });
  return object;
}

// --- reading: `name` is the whole path of a field, "model_bank[1].path"

[[noreturn]] void refuse(const std::string& name, const Json& json, std::string_view wanted) {
  raise<DataError>("[training_arguments] {} is {}, it must be {}", name, write_json(json), wanted);
}

void read(const std::string& name, const Json& json, bool& value) {
  if (!json.is_boolean()) refuse(name, json, "true or false");
  value = json.get<bool>();
}
void read(const std::string& name, const Json& json, std::int64_t& value) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63U != 0))
    refuse(name, json, "an integer of 64 bits");
  value = json.get<std::int64_t>();
}
void read(const std::string& name, const Json& json, std::string& value) {
  if (!json.is_string()) refuse(name, json, "a text");
  value = json.get<std::string>();
}
void read(const std::string& name, const Json& json, MixedPrecision& value) {
  for (const MixedPrecision precision : kPrecisions)
    if (json.is_null() || json == to_string(precision)) return void(value = precision);
  refuse(name, json, "null, \"none\", \"bf16\" or \"fp16\"");
}
void read(const std::string& name, const Json& json, std::pair<std::string, std::string>& value) {
  if (!json.is_array() || json.size() != 2) refuse(name, json, "a pair of texts");
  read(name + "[0]", json[0], value.first);
  read(name + "[1]", json[1], value.second);
}
template <Fields T> void read(const std::string& name, const Json& json, T& value);
template <class T> void read(const std::string& name, const Json& json, std::vector<T>& values) {
  values.clear();
  if (json.is_null()) return;
  if (!json.is_array()) refuse(name, json, "a list");
  for (std::size_t i = 0; i < json.size(); ++i) read(fmt::format("{}[{}]", name, i), json[i], values.emplace_back());
}
template <class T> void read(const std::string& name, const Json& json, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) read(name, json, value.emplace());
}
template <Fields T> void read(const std::string& name, const Json& json, T& value) {
  if (!json.is_object()) refuse(name.empty() ? "the text" : name, json, "an object");
  const std::string prefix = name.empty() ? "" : name + ".";
  std::set<std::string> known;
  visit_fields(value, [&](const char* field_name, auto& field, int = 0) {
    known.insert(field_name);
    if (json.contains(field_name)) read(prefix + field_name, json[field_name], field);
  });
  for (const auto& [key, ignored] : json.items())
    if (!known.contains(key)) raise<DataError>("[training_arguments] there is no field \"{}{}\"", prefix, key);
}

// --- ranges

void check(const std::string& name, std::int64_t value, int least) {
  if (value < least) raise("[training_arguments] {} is {}, it must be at least {}", name, value, least);
}
void check(const std::string& name, const std::optional<std::int64_t>& value, int least) {
  if (value) check(name, *value, least);
}
template <class T> void check(const std::string&, const T&) {}
void check(const std::string& name, const std::string& value) {
  if (value.empty()) raise("[training_arguments] {} is \"\", it must be a path", name);
}
template <Fields T> void check(const std::string& name, const T& value);
template <class T> void check(const std::string& name, const std::optional<T>& value) {
  if (value) check(name, *value);
}
void check(const std::string& name, const std::vector<ModelBankSource>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) check(fmt::format("{}[{}]", name, i), sources[i]);
}
template <Fields T> void check(const std::string& name, const T& value) {
  visit_fields(value, [&](const char* field, const auto&... rest) {
    check(name.empty() ? field : fmt::format("{}.{}", name, field), rest...);
  });
}

}  // namespace

std::string_view to_string(MixedPrecision precision) noexcept {
  switch (precision) {
    case MixedPrecision::none: return "none";
    case MixedPrecision::bf16: return "bf16";
    case MixedPrecision::fp16: break;
  }
  return "fp16";
}

SaverOptions TrainingArguments::saver() const {
  if (saver_option) return *saver_option;
  return {output_dir, model_bank, max_to_keep, save_concurrency_per_rank, params_not_save, save_filter_fn};
}

CheckpointSaveArguments TrainingArguments::checkpoint_save() const {
  if (ckpt_save_arg) return *ckpt_save_arg;
  return {save_steps, save_every_n_windows, save_every_n_epochs, save_end};
}

CheckpointLoadArguments TrainingArguments::checkpoint_load() const {
  if (ckpt_load_arg) return *ckpt_load_arg;
  return {load_update_steps, load_update_windows, load_update_epochs};
}

bool TrainingArguments::saves(const std::string& name) const {
  const SaverOptions options = saver();
  const auto matches = [&](const std::string& pattern) { return name_matches(name, pattern); };
  return std::ranges::none_of(options.params_not_save, matches) &&
         (!options.save_filter_fn || options.save_filter_fn(name));
}

void validate(const TrainingArguments& arguments) { check("", arguments); }

std::string to_json(const TrainingArguments& arguments) { return write_json(write(arguments), 2) + "\n"; }

TrainingArguments training_arguments_from_json(std::string_view text) {
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const Json::exception& error) {
    raise<DataError>("[training_arguments] the text is not JSON: {}", error.what());
  }
  TrainingArguments arguments;
  read("", json, arguments);
  try {
    validate(arguments);
  } catch (const Error& error) {
    raise<DataError>("{}", error.what());
  }
  return arguments;
}

}  // namespace tutti
