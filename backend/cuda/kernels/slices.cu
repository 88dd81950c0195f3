// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/slices.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/formulas/slice_formulas.h>

#include <algorithm>
#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

constexpr std::int64_t kMostSliceBlocks = 1024;  // the grid strides on: these kernels run beside others

// Elements that are read and written at once: 16 bytes.
template <class T> constexpr int kSliceLanes = 16 / sizeof(T);
template <class T> struct alignas(16) SliceLanes {
  T value[kSliceLanes<T>];
};

template <class Formula>
__device__ __forceinline__ void combine_lanes_at(const SliceTable& table, std::int64_t i, const Formula& formula) {
  using T = typename Formula::Value;
  constexpr int kLanes = kSliceLanes<T>;
  typename Formula::Sum sum[kLanes] = {};
  if (table.sources > 0) {
    const SliceLanes<T> first = static_cast<const SliceLanes<T>*>(table.source[0])[i];
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] = formula.contribution(first.value[lane]);
  }
  for (std::int32_t s = 1; s < table.sources; ++s) {
    const SliceLanes<T> next = static_cast<const SliceLanes<T>*>(table.source[s])[i];
    for (int lane = 0; lane < kLanes; ++lane)
      sum[lane] = formula.add(sum[lane], formula.contribution(next.value[lane]));
  }
  SliceLanes<T> result;
  for (int lane = 0; lane < kLanes; ++lane) result.value[lane] = formula.result(sum[lane]);
  for (std::int32_t t = 0; t < table.targets; ++t) static_cast<SliceLanes<T>*>(table.target[t])[i] = result;
}

// For tables whose sources are added one after the other.
template <class Formula> __global__ void __launch_bounds__(kThreads)
    combine_lanes(const __grid_constant__ SliceTable table, std::int64_t count, Formula formula) {
  constexpr int kLanes = kSliceLanes<typename Formula::Value>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t whole = count / kLanes;
  for (std::int64_t i = first; i < whole; i += stride) combine_lanes_at(table, i, formula);
  for (std::int64_t i = whole * kLanes + first; i < count; i += stride) combine_element(table, i, formula);
}

// For all tables: slices that begin at any element, and trees, whose waiting sums would be too many by lanes.
template <class Formula> __global__ void __launch_bounds__(kThreads)
    combine_elements(const __grid_constant__ SliceTable table, std::int64_t count, Formula formula) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride)
    combine_element(table, i, formula);
}

bool aligned(const SliceTable& table) {
  std::uintptr_t bits = 0;
  for (std::int32_t s = 0; s < table.sources; ++s) bits |= reinterpret_cast<std::uintptr_t>(table.source[s]);
  for (std::int32_t t = 0; t < table.targets; ++t) bits |= reinterpret_cast<std::uintptr_t>(table.target[t]);
  return bits % 16 == 0;
}

template <class Formula>
void run(cudaStream_t stream, const SliceTable& table, std::int64_t count, const Formula& formula) {
  constexpr int kLanes = kSliceLanes<typename Formula::Value>;
  const bool in_lanes = aligned(table) && table.in_line;
  const std::int64_t work = in_lanes ? (count + kLanes - 1) / kLanes : count;
  const auto blocks = static_cast<unsigned>(std::min(kMostSliceBlocks, (work + kThreads - 1) / kThreads));
  launch(in_lanes ? combine_lanes<Formula> : combine_elements<Formula>, dim3(blocks), dim3(kThreads), stream, table,
         count, formula);
}

void run_travelled(cudaStream_t stream, const SliceTable& table, std::int64_t count, const SliceOperation& operation) {
  const auto scale = static_cast<float>(operation.wire_scale);
  const DividedBy<float> quotient{static_cast<float>(operation.denominator * operation.wire_scale)};
  if (operation.wire == SliceWire::bf16)
    run(stream, table, count, TravelledSum<Bf16>{scale, quotient});
  else
    run(stream, table, count, TravelledSum<F16>{scale, quotient});
}

}  // namespace

void launch_combine_slices(cudaStream_t stream, DType dtype, const SliceTable& table, std::int64_t count,
                           const SliceOperation& operation) {
  if (count == 0 || table.targets == 0) return;
  if (operation.wire != SliceWire::native) return run_travelled(stream, table, count, operation);
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      switch (operation.combination) {
        case Combination::sum:
          return run(stream, table, count, PlainSum<T>{{static_cast<ComputedIn<T>>(operation.denominator)}});
        case Combination::max: return run(stream, table, count, Largest<T>{});
        case Combination::min: return run(stream, table, count, Smallest<T>{});
      }
    }
  });
}

}  // namespace tutti::cuda_kernels
