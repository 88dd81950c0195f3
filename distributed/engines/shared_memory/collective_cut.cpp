// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/collective_cut.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

namespace {

constexpr std::size_t kSourceAlignment = 64;  // bytes: what sources are aligned to in staging memory

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kSourceAlignment - 1) / kSourceAlignment * kSourceAlignment;
}

}  // namespace

CollectiveCut::CollectiveCut(std::span<const CollectivePart> parts, std::size_t processes,
                             const std::function<std::size_t(std::size_t)>& process_of, std::size_t element,
                             std::size_t piece_bytes)
    : pieces(1) {
  std::vector<std::size_t> used(processes, 0);
  std::vector<std::size_t> sources(processes);
  // Elements of a part that still fit.
  const auto room = [&](const CollectivePart& part) {
    std::ranges::fill(sources, 0);
    for (const CollectivePart::Place& source : part.sources) ++sources[process_of(source.number)];
    std::int64_t most = part.count;
    for (std::size_t process = 0; process < processes; ++process) {
      if (sources[process] == 0) continue;
      const std::size_t bytes = (piece_bytes - used[process]) / sources[process] / kSourceAlignment * kSourceAlignment;
      most = std::min(most, static_cast<std::int64_t>(bytes / element));
    }
    return most;
  };
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::int64_t begin = 0; begin < parts[part].count;) {
      const std::int64_t count = std::min(parts[part].count - begin, room(parts[part]));
      if (count == 0) {
        if (pieces.back().empty())
          raise<SyncError>("[shared_memory] {} sources of one part need more than {} bytes of staging memory",
                           parts[part].sources.size(), piece_bytes);
        pieces.emplace_back();
        std::ranges::fill(used, 0);
        continue;
      }
      Range range{part, begin, count, {}};
      for (const CollectivePart::Place& source : parts[part].sources) {
        std::size_t& place = used[process_of(source.number)];
        range.sources.push_back(place);
        place += whole_lines(static_cast<std::size_t>(count) * element);
      }
      pieces.back().push_back(std::move(range));
      begin += count;
    }
  }
}

// FNV-1a, of 64-bit words.
std::uint64_t hash_of(CollectiveOperation operation, std::span<const CollectivePart> parts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  const auto add_places = [&](const std::vector<CollectivePart::Place>& places) {
    add(places.size());
    for (const CollectivePart::Place& place : places) {
      add(place.member);
      add(static_cast<std::uint64_t>(place.offset));
      add(place.number);
    }
  };
  add(static_cast<std::uint64_t>(operation));
  for (const CollectivePart& part : parts) {
    add(static_cast<std::uint64_t>(part.count));
    add_places(part.sources);
    add_places(part.targets);
  }
  return hash;
}

}  // namespace tutti
