// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/operation.h>

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
};

enum class SliceWire : std::uint8_t { native, bf16, f16 };

struct SliceOperation {
  Combination combination = Combination::sum;
  double denominator = 1.0;            ///< divisor of sums
  SliceWire wire = SliceWire::native;  ///< format in which sums of f32 travel
  double wire_scale = 1.0;
};

/// Element i of every target = the sources' elements i, combined in their order as backend/formulas/slice_formulas.h
/// says; zeros without sources. For contiguous arrays of numbers.
void launch_combine_slices(cudaStream_t, DType, const SliceTable&, std::int64_t count, const SliceOperation&);

/// One element, as the kernels do it.
template <class Formula>
TUTTI_HOST_DEVICE void combine_element(const SliceTable& table, std::int64_t i, const Formula& formula) {
  using T = typename Formula::Value;
  auto sum = typename Formula::Sum(0);
  if (table.sources > 0) sum = formula.contribution(static_cast<const T*>(table.source[0])[i]);
  for (std::int32_t s = 1; s < table.sources; ++s)
    sum = formula.add(sum, formula.contribution(static_cast<const T*>(table.source[s])[i]));
  const T result = formula.result(sum);
  for (std::int32_t t = 0; t < table.targets; ++t) static_cast<T*>(table.target[t])[i] = result;
}

}  // namespace tutti::cuda_kernels
