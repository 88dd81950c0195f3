// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/dataset.h>

#include <cstdint>
#include <vector>

namespace clicks {

/// Columns of the inputs, all of them ids: hashes, as logs of the real world have them.
enum Column : std::int64_t { user, item, slot, country_and_category, kColumns };

/// One hour of a log: what was shown to whom, and whether it was clicked.
struct Hour {
  tutti::Examples examples;           ///< [n, kColumns] i64; [n, 1] f32, 1 where it was clicked
  std::vector<double> probabilities;  ///< [n], of the clicks: what no model can know better
};

/// A made-up web site's log, a function of seed, hour and count alone. Whether a user clicks on an item depends on the
/// item's quality, how the user's taste meets its style, what the user's country makes of its category, and the slot on
/// the page. Some of the items appear in later hours only.
class ClickLog {
 public:
  explicit ClickLog(std::uint64_t seed);

  Hour hour(std::int64_t number, std::int64_t count) const;

 private:
  double logit(std::int64_t user, std::int64_t item, std::int64_t slot) const;

  std::uint64_t seed_;
  std::vector<double> tastes_;      // [users, 2]
  std::vector<double> styles_;      // [items, 2]
  std::vector<double> qualities_;   // [items]
  std::vector<double> affinities_;  // [countries, categories]
};

}  // namespace clicks
