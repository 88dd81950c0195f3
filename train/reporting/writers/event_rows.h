// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/writers/event_storage.h>

#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

/// Gives each value of a storage once, ordered by iteration: what writers of files ask for what is new.
class EventRows {
 public:
  struct Value {
    std::int64_t iteration;
    std::size_t series;  ///< its place in the storage's series()
    double value;
  };

  /// Iteration from which on what was written is void, if the run began or went back since the last call. Values from
  /// there on are new again.
  std::optional<std::int64_t> restart(const EventStorage&);
  void assume_written(std::int64_t iteration);       ///< gives nothing up to this iteration
  std::span<const Value> take(const EventStorage&);  ///< valid until the next call; nothing while starting()

  /// The first values of `values`, those of one iteration; takes them off.
  static std::span<const Value> take_row(std::span<const Value>& values);

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();

  std::size_t starts_seen_ = 0;
  std::int64_t assumed_ = kNone;
  std::vector<std::int64_t> written_;  // last iteration given, by series
  std::vector<Value> values_;
};

}  // namespace tutti
