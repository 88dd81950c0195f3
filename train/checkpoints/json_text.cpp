// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

namespace tutti {

template <class Json> Json parse_json(std::string_view text) { return Json::parse(text); }
template <class Json> std::string write_json(const Json& json, int indent) { return json.dump(indent); }

template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);
template std::string write_json(const nlohmann::json&, int);
template std::string write_json(const nlohmann::ordered_json&, int);

}  // namespace tutti
