// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/copy.h>

#include <tutti/backend/cuda/kernels/parts/element_loops.cuh>
#include <tutti/backend/numbers/arithmetic_sequence.h>

namespace tutti::cuda_kernels {
namespace {

template <class T> struct Same {
  __device__ __forceinline__ T operator()(T x) const { return x; }
};
template <class T> struct Constant {
  T element;
  __device__ __forceinline__ T operator()() const { return element; }
};
template <class T> struct Choose {
  __device__ __forceinline__ T operator()(bool mask, T a, T b) const { return mask ? a : b; }
};

constexpr unsigned kTileRows = 8;  // of a tile that a block moves at once

template <class T> __global__ void __launch_bounds__(TileLayout::kSide* kTileRows)
    transpose_tiles(const __grid_constant__ TileLayout layout, T* target, const T* source) {
  constexpr unsigned kSide = TileLayout::kSide;
  __shared__ T elements[kSide][kSide + 1];  // a column lies in different banks
  for (std::uint32_t index = blockIdx.x; index < layout.tiles.items; index += gridDim.x) {
    const Tile tile = tile_at(layout, index);
    const T* from = source + tile.first.of[1];
    T* to = target + tile.first.of[0];
    TUTTI_UNROLL
    for (unsigned row = threadIdx.y; row < kSide; row += kTileRows)
      if (row < tile.target_axis && threadIdx.x < tile.source_axis)
        elements[row][threadIdx.x] = from[static_cast<std::int64_t>(row) * layout.source_stride + threadIdx.x];
    __syncthreads();
    TUTTI_UNROLL
    for (unsigned row = threadIdx.y; row < kSide; row += kTileRows)
      if (row < tile.source_axis && threadIdx.x < tile.target_axis)
        to[static_cast<std::int64_t>(row) * layout.target_stride + threadIdx.x] = elements[threadIdx.x][row];
    __syncthreads();
  }
}

template <class T> __global__ void __launch_bounds__(kThreads)
    number_elements(T* to, std::int64_t count, std::int64_t first, std::int64_t step) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += threads)
    to[i] = numbered<T>(first, step, i);
}

/// Calls `f` with an integer of that size.
template <class F> void visit_bytes(std::size_t element_bytes, const F& f) {
  switch (element_bytes) {
    case 8: return f(std::uint64_t{});
    case 4: return f(std::uint32_t{});
    case 2: return f(std::uint16_t{});
    default: return f(std::uint8_t{});
  }
}

}  // namespace

void launch_copy(cudaStream_t stream, std::size_t element_bytes, const ElementBatch& batch) {
  visit_bytes(element_bytes, [&]<class T>(T) { launch_elements<T, T>(stream, batch, Same<T>{}); });
}

void launch_transpose(cudaStream_t stream, std::size_t element_bytes, const TileLayout& layout, std::byte* target,
                      const std::byte* source) {
  visit_bytes(element_bytes, [&]<class T>(T) {
    launch(transpose_tiles<T>, blocks_for(layout.tiles.items, 1), dim3(TileLayout::kSide, kTileRows), stream, layout,
           reinterpret_cast<T*>(target), reinterpret_cast<const T*>(source));
  });
}

void launch_fill(cudaStream_t stream, std::size_t element_bytes, std::uint64_t element, const ElementBatch& batch) {
  visit_bytes(element_bytes,
              [&]<class T>(T) { launch_elements<T>(stream, batch, Constant<T>{static_cast<T>(element)}); });
}

void launch_arange(cudaStream_t stream, DType dtype, void* to, std::int64_t count, std::int64_t first,
                   std::int64_t step) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    launch(number_elements<T>, blocks_for(count), kThreads, stream, static_cast<T*>(to), count, first, step);
  });
}

void launch_where(cudaStream_t stream, std::size_t element_bytes, const ElementBatch& batch) {
  visit_bytes(element_bytes, [&]<class T>(T) { launch_elements<T, bool, T, T>(stream, batch, Choose<T>{}); });
}

}  // namespace tutti::cuda_kernels
