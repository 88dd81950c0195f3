// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/process_link.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace tutti {

/// Words that processes say on one line of a link, kept until all have said theirs. Used by who collects them; not
/// thread-safe.
class SaidWords {
 public:
  using Bytes = ProcessLink::Bytes;

  explicit SaidWords(std::size_t ranks) : said_(ranks), silent_(ranks, false) {}

  void add(int rank, Bytes bytes) { said_.at(static_cast<std::size_t>(rank)).push_back(std::move(bytes)); }
  void silence(int rank) { silent_.at(static_cast<std::size_t>(rank)) = true; }
  /// Takes the next words that all have said, by rank; empty ones for one that is silent. None: not all have.
  std::optional<std::vector<Bytes>> take();
  /// Ranks that have not said what this one waits to hear; none if it waits for nothing.
  std::vector<int> missing(int rank) const;

 private:
  std::vector<std::deque<Bytes>> said_;  // indexed by rank
  std::vector<bool> silent_;             // indexed by rank; true: it says nothing more
};

}  // namespace tutti
