// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/backend/formulas/sum_tree.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// The tree of some devices of a group, in their order.
class SumTree {
 public:
  void reserve(std::size_t devices) {
    numbers_.reserve(devices);
    joins_.reserve(devices);
  }
  /// Adds a device. Throws SyncError unless its number is below kMostLeaves and above those before it.
  void add(std::size_t number) {
    if (number >= kMostLeaves || (!numbers_.empty() && number <= numbers_.back()))
      raise_message<SyncError>("[sum] devices' numbers ascend and are below " + std::to_string(kMostLeaves) + ": " +
                               std::to_string(number) + " stands behind " +
                               (numbers_.empty() ? "nothing" : std::to_string(numbers_.back())));
    numbers_.push_back(static_cast<std::uint32_t>(number));
    joins_.emplace_back();
    plan_leaf(numbers_, joins_);
  }
  void clear() noexcept {
    numbers_.clear();
    joins_.clear();
  }
  const std::vector<std::uint8_t>& joins() const noexcept { return joins_; }  ///< plan for `walk_sum_tree`

 private:
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint8_t> joins_;
};

/// Combines the inputs in their tree by a formula of backend/formulas/slice_formulas.h, and writes the result to every
/// output, which may be an input. No input stands for zeros. Sums stay in cache: it goes by blocks.
template <class T, class Formula> void sum_blocks(std::span<const T* const> inputs, std::span<const std::uint8_t> joins,
                                                  std::span<T* const> outputs, std::int64_t count, Formula formula) {
  using Sum = typename Formula::Sum;
  constexpr std::int64_t kBlock = 512;
  Sum sums[kMostSums][kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    if (inputs.empty()) std::fill_n(sums[0], length, Sum(0));
    walk_sum_tree(
        joins.data(), inputs.size(),
        [&](std::size_t sum, std::size_t leaf) {
          const T* input = inputs[leaf] + begin;
          for (std::int64_t i = 0; i < length; ++i) sums[sum][i] = formula.contribution(input[i]);
        },
        [&](std::size_t sum, std::size_t leaf) {
          const T* input = inputs[leaf] + begin;
          const T* next = inputs[leaf + 1] + begin;
          for (std::int64_t i = 0; i < length; ++i)
            sums[sum][i] = formula.add(formula.contribution(input[i]), formula.contribution(next[i]));
        },
        [&](std::size_t sum, std::size_t leaf) {
          const T* input = inputs[leaf] + begin;
          for (std::int64_t i = 0; i < length; ++i)
            sums[sum][i] = formula.add(sums[sum][i], formula.contribution(input[i]));
        },
        [&](std::size_t sum, std::size_t next) {
          for (std::int64_t i = 0; i < length; ++i) sums[sum][i] = formula.add(sums[sum][i], sums[next][i]);
        });
    T* const result = outputs.front() + begin;
    for (std::int64_t i = 0; i < length; ++i) result[i] = formula.result(sums[0][i]);
    for (T* output : outputs.subspan(1)) std::copy_n(result, length, output + begin);
  }
}

}  // namespace tutti
