// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/part_state.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/checkpoints/random_state.h>

#include <nlohmann/json.hpp>

#include <unordered_map>
#include <utility>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

/// `read` of the text as JSON; what is malformed is a DataError.
template <class Read> auto read_json(const std::string& text, Read read) try {
  return read(parse_json<Json>(text));
} catch (const Json::exception& error) {
  raise<DataError>("malformed state: {}", error.what());
}

/// JSON's 1e300 would otherwise be converted without a word.
std::int64_t whole_number(const Json& value) {
  if (!value.is_number_integer()) raise<DataError>("malformed state: no whole number where one belongs");
  return value.get<std::int64_t>();
}

/// Shares the arrays of a state; each can be taken once.
class ArraysByName {
 public:
  explicit ArraysByName(const NamedArrays& arrays) {
    for (const auto& [name, array] : arrays) arrays_.emplace(name, array);
  }
  Array take(const std::string& name) {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) raise<DataError>("it has no array \"{}\"", name);
    return std::move(arrays_.extract(found).mapped());
  }

 private:
  std::unordered_map<std::string, Array> arrays_;
};

}  // namespace

Install in_order(std::vector<Install> installs) {
  return [installs = std::move(installs)] {
    for (const Install& install : installs) install();
  };
}

// --- optimizers

PartState part_state(const Optimizer::State& state) {
  PartState part;
  Json parameters = Json::array();
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    Json names = Json::array();
    for (const auto& [name, array] : state.parameters[i].arrays) {
      names.push_back(name);
      part.arrays.emplace_back(fmt::format("{}:{}", i, name), array);
    }
    parameters.push_back(
        {{"steps", state.parameters[i].steps}, {"arrays", std::move(names)}, {"group", state.parameters[i].group}});
  }
  part.text = write_json(Json{{"kind", state.kind},
                              {"steps", state.steps},
                              {"learning_rates", state.learning_rates},
                              {"parameters", std::move(parameters)}});
  return part;
}

PartState part_state(const Optimizer& optimizer) {
  if (optimizer.torn()) raise("[checkpoint] a step of the optimizer threw midway: parameters are of two steps");
  return part_state(optimizer.state());
}

Optimizer::State optimizer_state(const PartState& part) {
  ArraysByName arrays(part.arrays);
  return read_json(part.text, [&](const Json& json) {
    Optimizer::State state;
    if (json.contains("kind")) state.kind = json.at("kind").get<std::string>();  // older states lack it
    state.steps = whole_number(json.at("steps"));
    if (json.contains("learning_rates"))
      state.learning_rates = json.at("learning_rates").get<std::vector<double>>();
    else  // written before there were groups
      state.learning_rates = {json.at("learning_rate").get<double>()};
    for (const Json& parameter : json.at("parameters")) {
      const std::size_t position = state.parameters.size();
      Optimizer::ParameterState& one = state.parameters.emplace_back();
      one.steps = whole_number(parameter.at("steps"));
      if (parameter.contains("group")) one.group = static_cast<std::size_t>(whole_number(parameter.at("group")));
      for (const Json& entry : parameter.at("arrays")) {
        const auto name = entry.get<std::string>();
        one.arrays.emplace_back(name, arrays.take(fmt::format("{}:{}", position, name)));
      }
    }
    return state;
  });
}

Install prepare_part(Optimizer& optimizer, const PartState& part) {
  Optimizer::State state = optimizer_state(part);
  optimizer.check_state(state);
  return [&optimizer, state = std::move(state)] { optimizer.load_state(state); };
}

PartState part_state(const WeightAverage& average) {
  if (average.applied()) raise("[checkpoint] a scope has the averages applied to the parameters: end it first");
  WeightAverage::State state = average.state();
  PartState part;
  part.text = write_json(Json{{"updates", state.updates}, {"parameters", state.averages.size()}});
  for (std::size_t i = 0; i < state.averages.size(); ++i)
    part.arrays.emplace_back(std::to_string(i), std::move(state.averages[i]));
  return part;
}

Install prepare_part(WeightAverage& average, const PartState& part) {
  ArraysByName arrays(part.arrays);
  WeightAverage::State state = read_json(part.text, [&](const Json& json) {
    WeightAverage::State read{whole_number(json.at("updates")), {}};
    for (std::int64_t i = 0; i < whole_number(json.at("parameters")); ++i)
      read.averages.push_back(arrays.take(std::to_string(i)));
    return read;
  });
  average.check_state(state);
  return [&average, state = std::move(state)] { average.load_state(state); };
}

// --- what has no check of its own, but changes nothing when it throws: is loaded for a moment

PartState part_state(const GradientCompression& compression) { return {compression.state(), {}}; }

Install prepare_part(GradientCompression& compression, const PartState& part) {
  const GradientCompression::State now = compression.state();
  compression.load_state(part.arrays);
  compression.load_state(now);
  return [&compression, arrays = part.arrays] { compression.load_state(arrays); };
}

Install prepare_text(const std::string& now, const std::string& then, std::function<void(const std::string&)> load) {
  load(then);
  load(now);
  return [then, load = std::move(load)] { load(then); };
}

PartState part_state(const Generator& generator) { return {{}, generator_text(generator)}; }

Install prepare_part(Generator& generator, const PartState& part) {
  return [&generator, loaded = parse_generator(part.text)] { generator = loaded; };
}

}  // namespace tutti
