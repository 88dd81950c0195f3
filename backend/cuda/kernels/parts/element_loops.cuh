// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two loops of all operations that treat each element alone. `f` gets one element of each input and returns the
// output's. The formula stands once in each loop, also for what is left over at the end: an element's value does not
// depend on its place.

#include <tutti/backend/cuda/kernels/parts/element_layout.h>
#include <tutti/backend/cuda/kernels/parts/launch.cuh>

#include <type_traits>
#include <utility>

namespace tutti::cuda_kernels {

template <class... T> inline constexpr std::uint32_t kGroupLanes = [] {
  std::size_t widest = 1;
  ((widest = sizeof(T) > widest ? sizeof(T) : widest), ...);
  return group_lanes(widest);
}();

/// Neighbours in memory, read and written at once.
template <class T, std::uint32_t lanes> struct alignas(sizeof(T) * lanes) Group {
  T lane[lanes];
};

template <std::uint32_t lanes, class T>
__device__ __forceinline__ Group<T, lanes> load_group(const T* from, bool repeated, std::uint32_t count) {
  Group<T, lanes> group;
  if (!repeated && count == lanes) {
    group = *reinterpret_cast<const Group<T, lanes>*>(from);
  } else {
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < lanes; ++i) group.lane[i] = from[repeated || i >= count ? 0 : i];
  }
  return group;
}

template <class T, std::uint32_t lanes>
__device__ __forceinline__ void store_group(const Group<T, lanes>& group, T* to, std::uint32_t count) {
  if (count == lanes) {
    *reinterpret_cast<Group<T, lanes>*>(to) = group;
  } else {
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < lanes; ++i)
      if (i < count) to[i] = group.lane[i];
  }
}

/// Calls `f` for each lane of some groups.
template <class To, std::uint32_t lanes, class F, class... From>
__device__ __forceinline__ Group<To, lanes> apply_to_lanes(const F& f, const Group<From, lanes>&... from) {
  Group<To, lanes> result;
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < lanes; ++i) result.lane[i] = f(from.lane[i]...);
  return result;
}

template <class F, class To, std::size_t... I, class... From>
__device__ __forceinline__ void take_group(const ElementLayout& layout, const F& f, std::uint32_t group,
                                           std::index_sequence<I...>, To* to, const From*... from) {
  constexpr std::uint32_t kLanes = kGroupLanes<To, From...>;
  const ElementOffsets<sizeof...(From) + 1> offsets = element_offsets<sizeof...(From) + 1>(layout, group);
  const std::uint32_t count = group + 1 == layout.items ? layout.in_last : kLanes;
  store_group(apply_to_lanes<To, kLanes>(
                  f, load_group<kLanes>(from + offsets.of[I + 1], layout.stride[I + 1][0] == 0, count)...),
              to + offsets.of[0], count);
}

template <class F, class To, class... From> __global__ void __launch_bounds__(kThreads)
    grouped_elements(const __grid_constant__ ElementLayout layout, const F f, To* to, const From*... from) {
  for (std::uint32_t group = blockIdx.x * kThreads + threadIdx.x; group < layout.items; group += gridDim.x * kThreads)
    take_group(layout, f, group, std::index_sequence_for<From...>(), to, from...);
}

/// Elements of which a thread has the loads in flight at once.
template <class... T> inline constexpr std::uint32_t kTogether = kGroupLanes<T...> < 4 ? kGroupLanes<T...> : 4;

template <class F, class To, std::size_t... I, class... From>
__device__ __forceinline__ void take_scattered(const ElementLayout& layout, const F& f, std::uint32_t first,
                                               std::index_sequence<I...>, To* to, const From*... from) {
  constexpr std::uint32_t kCount = kTogether<To, From...>;
  To* target[kCount];
  To result[kCount];
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint32_t item = first + i * kThreads;
    // Behind the end the last element is read again, and not written.
    const auto offsets = element_offsets<sizeof...(From) + 1>(layout, item < layout.items ? item : layout.items - 1);
    target[i] = to + offsets.of[0];
    result[i] = f(from[offsets.of[I + 1]]...);
  }
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kCount; ++i)
    if (first + i * kThreads < layout.items) *target[i] = result[i];
}

template <class F, class To, class... From> __global__ void __launch_bounds__(kThreads)
    scattered_elements(const __grid_constant__ ElementLayout layout, const F f, To* to, const From*... from) {
  constexpr std::uint32_t kBlock = kThreads * kTogether<To, From...>;
  for (std::uint32_t first = blockIdx.x * kBlock + threadIdx.x; first < layout.items; first += gridDim.x * kBlock)
    take_scattered(layout, f, first, std::index_sequence_for<From...>(), to, from...);
}

template <class F, class To, class... From, std::size_t... I>
void launch_on(cudaStream_t stream, const ElementBatch& batch, const F& f, std::index_sequence<I...>) {
  To* to = reinterpret_cast<To*>(batch.output);
  const std::int64_t items = batch.layout.items;
  if (batch.grouped) {
    launch(grouped_elements<F, To, From...>, blocks_for(items), kThreads, stream, batch.layout, f, to,
           reinterpret_cast<const From*>(batch.input[I])...);
  } else {
    constexpr unsigned kBlock = kThreads * kTogether<To, From...>;
    launch(scattered_elements<F, To, From...>, blocks_for(items, kBlock), kThreads, stream, batch.layout, f, to,
           reinterpret_cast<const From*>(batch.input[I])...);
  }
}

/// output[i] = f(input[0][i], ...), where the inputs are of the types From.
template <class To, class... From, class F>
void launch_elements(cudaStream_t stream, const ElementBatch& batch, const F& f) {
  launch_on<F, To, From...>(stream, batch, f, std::index_sequence_for<From...>());
}

}  // namespace tutti::cuda_kernels
