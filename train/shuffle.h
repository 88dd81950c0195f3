// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tutti {

/// 0 ... count-1 in random order, each order as likely: Fisher and Yates' shuffle, in Durstenfeld's form.
inline std::vector<std::int64_t> shuffled(std::int64_t count, Generator& generator) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[generator.below(left)]);
  return order;
}

}  // namespace tutti
