// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/arg_reduce.h>

#include <tutti/backend/cuda/kernels/parts/best_element.h>
#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/line_combine.cuh>

namespace tutti::cuda_kernels {
namespace {

template <class T, bool largest> __global__ void __launch_bounds__(LineLayout::kThreads)
    arg_reduce_lines(const AxisLines lines, const T* __restrict__ from, std::int64_t* __restrict__ to) {
  const std::uint32_t lane = lines.layout.lane_of(threadIdx.x);
  for (std::int64_t group = blockIdx.x; group < lines.layout.groups(lines.count); group += gridDim.x) {
    const std::int64_t line = group * lines.layout.lines + lines.layout.line_of(threadIdx.x);
    const bool exists = line < lines.count;
    const T* const elements = from + lines.first(exists ? line : 0);
    BestElement<T, largest> best;
#pragma unroll 4
    for (std::int64_t i = lane; exists && i < lines.length; i += lines.layout.lanes)
      best.add(elements[i * lines.inner], i);
    best = combine_line(best, lines.layout, [](const auto& a, const auto& b) { return a.combine(a, b); });
    if (exists && lane == 0) to[line] = best.place;
  }
}

}  // namespace

void launch_arg_reduce(cudaStream_t stream, ArgReduction kind, DType dtype, const AxisLines& lines, const void* from,
                       std::int64_t* to) {
  const std::uint32_t blocks = blocks_for(lines.layout.groups(lines.count), 1);
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      const auto* const elements = static_cast<const T*>(from);
      if (kind == ArgReduction::arg_max)
        launch(arg_reduce_lines<T, true>, blocks, LineLayout::kThreads, stream, lines, elements, to);
      else
        launch(arg_reduce_lines<T, false>, blocks, LineLayout::kThreads, stream, lines, elements, to);
    }
  });
}

}  // namespace tutti::cuda_kernels
