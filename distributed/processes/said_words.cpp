// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/said_words.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::optional<std::vector<SaidWords::Bytes>> SaidWords::take() {
  if (std::ranges::all_of(said_, [](const auto& said) { return said.empty(); })) return std::nullopt;
  for (std::size_t rank = 0; rank < said_.size(); ++rank)
    if (said_[rank].empty() && !silent_[rank]) return std::nullopt;
  std::vector<Bytes> words(said_.size());
  for (std::size_t rank = 0; rank < said_.size(); ++rank) {
    if (said_[rank].empty()) continue;
    words[rank] = std::move(said_[rank].front());
    said_[rank].pop_front();
  }
  return words;
}

std::vector<int> SaidWords::missing(int rank) const {
  std::vector<int> missing;
  if (said_.at(static_cast<std::size_t>(rank)).empty()) return missing;
  for (std::size_t other = 0; other < said_.size(); ++other)
    if (said_[other].empty() && !silent_[other]) missing.push_back(static_cast<int>(other));
  return missing;
}

}  // namespace tutti
