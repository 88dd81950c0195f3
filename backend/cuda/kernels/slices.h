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

/// One element, as the kernels do it.
template <class Formula>
TUTTI_HOST_DEVICE void combine_element(const SliceTable& table, std::int64_t i, const Formula& formula) {
  using T = typename Formula::Value;
  typename Formula::Sum sums[kMostSums];
  sums[0] = 0;
  const auto contribution = [&](std::size_t s) {
    return formula.contribution(static_cast<const T*>(table.source[s])[i]);
  };
  walk_sum_tree(
      table.joins, static_cast<std::size_t>(table.sources),
      [&](std::size_t sum, std::size_t s) { sums[sum] = contribution(s); },
      [&](std::size_t sum, std::size_t s) { sums[sum] = formula.add(sums[sum], contribution(s)); },
      [&](std::size_t sum, std::size_t next) { sums[sum] = formula.add(sums[sum], sums[next]); });
  const T result = formula.result(sums[0]);
  for (std::int32_t t = 0; t < table.targets; ++t) static_cast<T*>(table.target[t])[i] = result;
}

}  // namespace tutti::cuda_kernels
