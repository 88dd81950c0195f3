// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/positions/batch_position.h>

#include <tutti/backend/raise.h>

#include <nlohmann/json.hpp>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json parse(const std::string& text) {
  Json position = Json::parse(text, nullptr, false);
  if (!position.is_object()) raise<DataError>("[BatchStream] \"{}\" is no position of batches", text.substr(0, 100));
  return position;
}

const Json& member(const Json& position, const char* name) {
  const auto found = position.find(name);
  if (found == position.end()) raise<DataError>("[BatchStream] the position lacks \"{}\"", name);
  return *found;
}

std::int64_t count(const Json& position, const char* name) {
  const Json& value = member(position, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
    raise<DataError>("[BatchStream] \"{}\" of the position is {}", name, value.dump().substr(0, 100));
  return value.get<std::int64_t>();
}

std::string words(const Json& position, const char* name) {
  const Json& value = member(position, name);
  if (!value.is_string()) raise<DataError>("[BatchStream] \"{}\" of the position is no text", name);
  return value.get<std::string>();
}

}  // namespace

std::string to_text(const BatchPosition& position) {
  return Json{
      {"epoch", position.epoch}, {"examples", position.examples}, {"data", position.data}, {"order", position.order}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

BatchPosition parse_batch_position(const std::string& text, const BatchPosition& own) {
  const Json json = parse(text);
  BatchPosition position{count(json, "epoch"), count(json, "examples"), words(json, "data"), words(json, "order")};
  if (position.data != own.data)
    raise<DataError>("[BatchStream] the position is of a stream over {}; this one is over {}", position.data, own.data);
  if (position.order != own.order)
    raise<DataError>("[BatchStream] the position is of a stream in the order \"{}\"; this one's is \"{}\"",
                     position.order, own.order);
  return position;
}

}  // namespace tutti
