// SPDX-License-Identifier: Apache-2.0
#pragma once

// The order in which the devices of a group are summed: a balanced tree over their numbers in the group. 0 and 1 make a
// sum, 2 and 3 another, these two a third, and so on; who is silent leaves a place empty, and what would have been
// added to it goes on by itself. So the sum of an aligned power of two of devices, as 4 to 7, is a node of the tree,
// and whoever adds such partial sums in the same tree gets the bits that one who has all devices gets. No element's
// error grows with the number of devices, but with its logarithm. One code plans it for CPU loops and CUDA kernels.

#include <tutti/backend/elementwise/operation.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// The most devices of a group: numbers have 16 bits.
constexpr std::size_t kMostLeaves = 1U << 16U;
/// The most sums that are there at once while a tree is walked.
constexpr std::size_t kMostSums = 16;

/// Plans the last of these leaves; called for each as it is added. `numbers`: the devices', ascending and below
/// kMostLeaves, which whoever adds them checks. `joins`: the number of sums that end with each leaf, for
/// `walk_sum_tree`.
inline void plan_leaf(std::span<const std::uint32_t> numbers, std::span<std::uint8_t> joins) {
  constexpr std::uint8_t kAll = 255;
  // Height of the node that joins a leaf with the one before it.
  const auto height = [&](std::size_t leaf) {
    return std::max(1, static_cast<int>(std::bit_width(numbers[leaf - 1] ^ numbers[leaf])));
  };
  const std::size_t last = numbers.size() - 1;
  joins[last] = kAll;
  if (last == 0) return;
  std::uint8_t ended = 0;
  int highest = 0;
  for (std::size_t leaf = last - 1; leaf > 0 && height(leaf) < height(last); --leaf) {
    if (height(leaf) <= highest) continue;
    highest = height(leaf);
    ++ended;
  }
  joins[last - 1] = ended;
}

/// Walks the tree with at most kMostSums sums, the last of which is in the making; the first is the result. `joins`: as
/// planned by `plan_leaf`. `begin(sum, leaf)`: the sum is that leaf. `begin_pair(sum, leaf)`: it is that leaf and the
/// one after it. `add(sum, leaf)`: the leaf is added to it. `join(sum, next)`: the next sum is added to it, and is
/// free.
template <class Begin, class BeginPair, class Add, class Join>
TUTTI_HOST_DEVICE void walk_sum_tree(const std::uint8_t* joins, std::size_t leaves, Begin begin, BeginPair begin_pair,
                                     Add add, Join join) {
  std::size_t sum = 0;
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    if (leaf > 0 && joins[leaf] > 0) {
      add(sum, leaf);
    } else {
      if (leaf > 0) ++sum;
      if (leaf + 1 < leaves && joins[leaf + 1] > 0)
        begin_pair(sum, leaf++);
      else
        begin(sum, leaf);
    }
    for (std::size_t ended = 1; ended < joins[leaf] && sum > 0; ++ended, --sum) join(sum - 1, sum);
  }
}

}  // namespace tutti
