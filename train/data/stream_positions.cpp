// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/stream_positions.h>

#include <tutti/backend/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tutti {

std::string join_positions(std::span<const std::string> positions) {
  return nlohmann::json(std::vector<std::string>(positions.begin(), positions.end())).dump();
}

std::vector<std::string> split_positions(const std::string& text, std::size_t streams) try {
  auto positions = nlohmann::json::parse(text).get<std::vector<std::string>>();
  if (positions.size() == streams) return positions;
  const bool same =
      !positions.empty() && std::ranges::all_of(positions, [&](const auto& p) { return p == positions[0]; });
  if (!same)
    raise<DataError>("[data] {} streams stood at different places: {} cannot go on there", positions.size(), streams);
  return std::vector<std::string>(streams, positions.front());
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[data] these are no positions of streams: {}", error.what());
}

}  // namespace tutti
