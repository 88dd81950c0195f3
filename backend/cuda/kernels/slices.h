// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/formulas/sum_tree.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

enum class Combination : std::uint8_t { sum, max, min };  ///< max and min propagate NaN

/// Addresses of several devices' arrays, for a kernel that reaches all of them. Targets may be sources: each element is
/// read and then written by one thread.
struct SliceTable {
  static constexpr std::int32_t kMost = 64;
  std::int32_t sources = 0;
  std::int32_t targets = 0;
  const void* source[kMost] = {};
  void* target[kMost] = {};
  bool in_line = true;               ///< the tree adds one source after the other
  std::uint32_t number[kMost] = {};  ///< the sources' devices'
  std::uint8_t joins[kMost] = {};    ///< plan of the sources' tree (backend/formulas/sum_tree.h)
};

enum class SliceWire : std::uint8_t { native, bf16, f16 };

struct SliceOperation {
  Combination combination = Combination::sum;
  double denominator = 1.0;            ///< divisor of sums
  SliceWire wire = SliceWire::native;  ///< format in which sums of f32 travel
  double wire_scale = 1.0;
};

/// Element i of every target = the sources' elements i, combined as backend/formulas/slice_formulas.h says, in the tree
/// of their devices' numbers; zeros without sources. For contiguous arrays of numbers.
void launch_combine_slices(cudaStream_t, DType, const SliceTable&, std::int64_t count, const SliceOperation&);

template <class Formula>
TUTTI_HOST_DEVICE auto contribution_of(const SliceTable& table, std::size_t s, std::int64_t i, const Formula& formula) {
  return formula.contribution(static_cast<const typename Formula::Value*>(table.source[s])[i]);
}

template <class Formula>
TUTTI_HOST_DEVICE auto sum_in_line(const SliceTable& table, std::int64_t i, const Formula& formula) {
  auto sum = typename Formula::Sum(0);
  if (table.sources > 0) sum = contribution_of(table, 0, i, formula);
  for (std::int32_t s = 1; s < table.sources; ++s)
    sum = formula.add(sum, contribution_of(table, static_cast<std::size_t>(s), i, formula));
  return sum;
}

template <class Formula>
TUTTI_HOST_DEVICE auto sum_in_tree(const SliceTable& table, std::int64_t i, const Formula& formula) {
  typename Formula::Sum sums[kMostSums];
  const auto contribution = [&](std::size_t s) { return contribution_of(table, s, i, formula); };
  walk_sum_tree(
      table.joins, static_cast<std::size_t>(table.sources),
      [&](std::size_t sum, std::size_t s) { sums[sum] = contribution(s); },
      [&](std::size_t sum, std::size_t s) { sums[sum] = formula.add(contribution(s), contribution(s + 1)); },
      [&](std::size_t sum, std::size_t s) { sums[sum] = formula.add(sums[sum], contribution(s)); },
      [&](std::size_t sum, std::size_t next) { sums[sum] = formula.add(sums[sum], sums[next]); });
  return sums[0];
}

/// One element, as the kernels do it.
template <class Formula>
TUTTI_HOST_DEVICE void combine_element(const SliceTable& table, std::int64_t i, const Formula& formula) {
  using T = typename Formula::Value;
  const T result = formula.result(table.in_line ? sum_in_line(table, i, formula) : sum_in_tree(table, i, formula));
  for (std::int32_t t = 0; t < table.targets; ++t) static_cast<T*>(table.target[t])[i] = result;
}

}  // namespace tutti::cuda_kernels
