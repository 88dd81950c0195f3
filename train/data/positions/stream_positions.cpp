// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/positions/stream_positions.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

std::vector<std::string> split_positions(const std::string& text, std::size_t streams) {
  auto positions = split_texts(text);
  if (positions.size() == streams) return positions;
  const bool same =
      !positions.empty() && std::ranges::all_of(positions, [&](const auto& p) { return p == positions[0]; });
  if (!same)
    raise<DataError>(
        "[data] {} streams stood at different places, each in data of its own, and {} cannot go on there: resume with "
        "{} "
        "devices, or let a load_filter leave this part out, and the data begin anew",
        positions.size(), streams, positions.size());
  return std::vector<std::string>(streams, positions.front());
}

}  // namespace tutti
