// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/positions/window_position.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

WindowUse use_of(const std::string& text) {
  for (const WindowUse use : {WindowUse::undecided, WindowUse::windowed, WindowUse::plain})
    if (to_string(use) == text) return use;
  raise<DataError>("[window_stream] a position's use is \"{}\"", text);
}

}  // namespace

std::string to_string(WindowUse use) {
  switch (use) {
    case WindowUse::undecided: return "undecided";
    case WindowUse::windowed: return "windowed";
    case WindowUse::plain: break;
  }
  return "plain";
}

std::string WindowPosition::text() const {
  return write_json(
      Json{{"use", to_string(use)}, {"epoch", epoch}, {"window", window}, {"inside", inside}, {"inner", inner}});
}

WindowPosition WindowPosition::parse(const std::string& text, std::int64_t windows) {
  WindowPosition position;
  try {
    const Json json = parse_json<Json>(text);
    position = {use_of(json.at("use").get<std::string>()), json.at("epoch").get<std::int64_t>(),
                json.at("window").get<std::int64_t>(), json.at("inside").get<bool>(),
                json.at("inner").get<std::string>()};
  } catch (const Json::exception&) {
    raise<DataError>("[window_stream] \"{}\" is no position", text);
  }
  const bool fits = position.epoch >= 0 && position.window >= (position.inside ? 0 : -1) && position.window < windows;
  if (!fits) raise<DataError>("[window_stream] {} is no position among {} windows", text, windows);
  return position;
}

}  // namespace tutti
