// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device code: how the threads of a line go over its elements, one by one or in quads.

#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/cuda/kernels/parts/quad.h>

namespace tutti::cuda_kernels {

/// Calls `f` with the elements of some lines that a lane takes, one of each.
template <bool in_quads, class F, class... T>
__device__ void visit_line(const AxisLines& lines, std::uint32_t lane, F f, const T*... from) {
  if constexpr (in_quads) {
    for (std::int64_t i = 4 * std::int64_t{lane}; i < lines.length; i += 4 * std::int64_t{lines.layout.lanes})
      [&](const Quad<T>... quad) {  // by value: a reference lets each element be read alone
#pragma unroll
        for (int j = 0; j < 4; ++j) f(quad.at[j]...);
      }(*reinterpret_cast<const Quad<T>*>(from + i)...);
  } else {
    for (std::int64_t i = lane; i < lines.length; i += lines.layout.lanes) f(from[i * lines.inner]...);
  }
}

/// Stores what `f` makes of them.
template <bool in_quads, class F, class To, class... T>
__device__ void map_line(const AxisLines& lines, std::uint32_t lane, To* to, F f, const T*... from) {
  if constexpr (in_quads) {
    for (std::int64_t i = 4 * std::int64_t{lane}; i < lines.length; i += 4 * std::int64_t{lines.layout.lanes})
      [&](const Quad<T>... quad) {  // by value: a reference lets each element be read alone
        Quad<To> result;
#pragma unroll
        for (int j = 0; j < 4; ++j) result.at[j] = f(quad.at[j]...);
        *reinterpret_cast<Quad<To>*>(to + i) = result;
      }(*reinterpret_cast<const Quad<T>*>(from + i)...);
  } else {
    for (std::int64_t i = lane; i < lines.length; i += lines.layout.lanes)
      to[i * lines.inner] = f(from[i * lines.inner]...);
  }
}

}  // namespace tutti::cuda_kernels
