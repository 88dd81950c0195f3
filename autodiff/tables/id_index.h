// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {

/// The rows that go first when a table is full.
enum class Eviction : std::uint8_t {
  least_recent,   ///< those that no update has reached for longest
  least_frequent  ///< those that the fewest updates have reached
};

struct IdIndexOptions {
  std::int64_t min_count = 1;  ///< updates that must reach an id before it gets a row; >= 1
  std::int64_t max_rows = 0;   ///< 0: any number
  std::int64_t max_idle = 0;   ///< updates without it after which an id is forgotten, an eighth later at most; 0: never
  Eviction eviction = Eviction::least_recent;
};

/// Assigns the rows of a table to ids. All that it does is a function of the updates so far, whatever order of ids they
/// were found in: ties go by id. One thread at a time.
class IdIndex {
 public:
  struct Entry {
    std::int64_t row = -1;   ///< none yet: waits until it has been reached often enough
    std::int64_t count = 0;  ///< updates that reached it
    std::int64_t last = 0;   ///< number of the last of them, from 1
  };
  struct Changes {
    std::vector<std::int64_t> freed;                              ///< rows, ascending; some may be given again
    std::vector<std::pair<std::int64_t, std::int64_t>> inserted;  ///< id and row
  };

  explicit IdIndex(const IdIndexOptions& options = {}) : options_(options) {}

  /// Counts an update that reaches these ids, each named once: forgets ids, then gives rows to new ones. When the table
  /// is full a sixteenth of it goes at once, but no id of this update. Error, nothing changed, if those alone are more
  /// than max_rows.
  Changes reach(std::span<const std::int64_t> ids);
  /// Forgets them; those that it does not know are skipped.
  Changes erase(std::span<const std::int64_t> ids);

  const Entry* find(std::int64_t id) const;                       ///< null: unknown
  std::int64_t rows() const noexcept { return rows_; }            ///< number of rows in use
  std::int64_t row_bound() const noexcept { return row_bound_; }  ///< a number above every row given so far
  std::int64_t updates() const noexcept { return updates_; }
  const IdIndexOptions& options() const noexcept { return options_; }
  std::vector<std::int64_t> ids(bool with_row = true) const;  ///< ascending; or those that wait for a row

  /// Restores what was known of an id elsewhere; gives it a row if it is to have one. For an index that has not met it.
  std::int64_t restore(std::int64_t id, std::int64_t count, std::int64_t last, bool with_row);
  void set_updates(std::int64_t updates) noexcept { updates_ = updates; }
  Changes shrink() { return make_room(0); }  ///< evicts what is above max_rows

 private:
  using Map = std::unordered_map<std::int64_t, Entry>;

  std::int64_t rows_wanted(std::span<const std::int64_t> ids) const;
  Changes make_room(std::int64_t rows);
  void erase_idle(Changes&);
  std::int64_t take_row();
  void free_rows(Changes&);

  IdIndexOptions options_;
  Map entries_;
  std::vector<std::int64_t> free_;  // descending: the smallest is taken first
  std::int64_t rows_ = 0;
  std::int64_t row_bound_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace tutti
