// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tables/id_index.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace tutti {

const IdIndex::Entry* IdIndex::find(std::int64_t id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::int64_t> IdIndex::ids(bool with_row) const {
  std::vector<std::int64_t> known;
  for (const auto& [id, entry] : entries_)
    if ((entry.row >= 0) == with_row) known.push_back(id);
  std::ranges::sort(known);
  return known;
}

std::int64_t IdIndex::take_row() {
  ++rows_;
  if (free_.empty()) return row_bound_++;
  const std::int64_t row = free_.back();
  free_.pop_back();
  return row;
}

void IdIndex::free_rows(Changes& changes) {
  std::ranges::sort(changes.freed);
  rows_ -= static_cast<std::int64_t>(changes.freed.size());
  free_.insert(free_.end(), changes.freed.begin(), changes.freed.end());
  std::ranges::sort(free_, std::greater{});
}

IdIndex::Changes IdIndex::erase(std::span<const std::int64_t> ids) {
  Changes changes;
  for (const std::int64_t id : ids)
    if (const auto node = entries_.extract(id); node && node.mapped().row >= 0)
      changes.freed.push_back(node.mapped().row);
  if (!changes.freed.empty()) free_rows(changes);
  return changes;
}

std::int64_t IdIndex::rows_wanted(std::span<const std::int64_t> ids) const {
  return std::ranges::count_if(ids, [this](std::int64_t id) {
    const Entry* entry = find(id);
    return entry != nullptr ? entry->row >= 0 || entry->count + 1 >= options_.min_count : options_.min_count <= 1;
  });
}

IdIndex::Changes IdIndex::make_room(std::int64_t rows) {
  if (options_.max_rows == 0 || rows_ + rows <= options_.max_rows) return {};
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // the id last
  std::vector<Rank> ranks;
  for (const auto& [id, entry] : entries_) {
    if (entry.row < 0 || (rows > 0 && entry.last == updates_)) continue;
    ranks.push_back(options_.eviction == Eviction::least_recent ? Rank{entry.last, entry.count, id}
                                                                : Rank{entry.count, entry.last, id});
  }
  const std::int64_t wanted = std::max(rows_ + rows - options_.max_rows, rows > 0 ? options_.max_rows / 16 : 0);
  const std::int64_t victims = std::min(wanted, static_cast<std::int64_t>(ranks.size()));
  std::ranges::nth_element(ranks, ranks.begin() + victims);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < victims; ++i) ids.push_back(std::get<2>(ranks[static_cast<std::size_t>(i)]));
  return erase(ids);
}

void IdIndex::erase_idle(Changes& changes) {
  if (options_.max_idle == 0 || updates_ % std::max<std::int64_t>(1, options_.max_idle / 8) != 0) return;
  std::vector<std::int64_t> ids;
  for (const auto& [id, entry] : entries_)
    if (updates_ - entry.last > options_.max_idle) ids.push_back(id);
  const Changes idle = erase(ids);
  changes.freed.insert(changes.freed.end(), idle.freed.begin(), idle.freed.end());
}

IdIndex::Changes IdIndex::reach(std::span<const std::int64_t> ids) {
  if (const std::int64_t wanted = rows_wanted(ids); options_.max_rows > 0 && wanted > options_.max_rows)
    raise("[hash_table] one update reaches {} rows, the table may have {}: raise max_rows", wanted, options_.max_rows);
  ++updates_;
  std::vector<std::int64_t> admitted;
  for (const std::int64_t id : ids) {
    Entry& entry = entries_[id];
    ++entry.count;
    entry.last = updates_;
    if (entry.row < 0 && entry.count >= options_.min_count) admitted.push_back(id);
  }
  Changes changes;
  erase_idle(changes);
  const Changes room = make_room(static_cast<std::int64_t>(admitted.size()));
  changes.freed.insert(changes.freed.end(), room.freed.begin(), room.freed.end());
  std::ranges::sort(changes.freed);
  std::ranges::sort(admitted);
  for (const std::int64_t id : admitted) {
    const std::int64_t row = take_row();
    entries_.at(id).row = row;
    changes.inserted.emplace_back(id, row);
  }
  return changes;
}

std::int64_t IdIndex::restore(std::int64_t id, std::int64_t count, std::int64_t last, bool with_row) {
  const std::int64_t row = with_row ? take_row() : -1;
  entries_[id] = {row, count, last};
  return row;
}

}  // namespace tutti
