// SPDX-License-Identifier: Apache-2.0
#pragma once

// JSON from text and back, for states and manifests. nlohmann's own functions are templates, which take two seconds of
// compiling in each source that calls them; these are compiled once.

#include <string>
#include <string_view>

namespace tutti {

/// `Json::parse(text)`; throws what that does. Json is nlohmann's `json` or `ordered_json`.
template <class Json> [[gnu::visibility("hidden")]] Json parse_json(std::string_view text);

/// `json.dump(indent)`; throws what that does.
template <class Json> [[gnu::visibility("hidden")]] std::string write_json(const Json& json, int indent = -1);

}  // namespace tutti
