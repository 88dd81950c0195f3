// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included before a .cu file, makes C++ of it: what CUDA adds to the language, and a `launch` that runs on the host.

#include <tutti/tests/backend/cuda/on_host/grid.h>

#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // blocks run one after another
#define gridDim (::tutti::on_host::registers.grid)
#define blockDim (::tutti::on_host::registers.block)
#define blockIdx (::tutti::on_host::registers.block_index)
#define threadIdx (::tutti::on_host::registers.thread_index)

namespace tutti::cuda_kernels {

using Where = std::source_location;

inline void __syncthreads(const Where& where = Where::current()) { on_host::wait_for_block(where); }

inline unsigned lane_of_warp() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % on_host::kWarp;
}

inline void __syncwarp(std::uint32_t mask = ~0U, const Where& where = Where::current()) {
  on_host::call_warp({on_host::WarpCall::Kind::synchronize, mask, 0, lane_of_warp(), where});
}

inline std::uint32_t __ballot_sync(std::uint32_t mask, bool vote, const Where& where = Where::current()) {
  return static_cast<std::uint32_t>(
      on_host::call_warp({on_host::WarpCall::Kind::ballot, mask, vote ? 1U : 0U, lane_of_warp(), where}));
}

template <class T> T shuffle(std::uint32_t mask, T value, std::uint32_t source, const Where& where) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const auto answer =
      on_host::call_warp({on_host::WarpCall::Kind::shuffle, mask, std::bit_cast<Bits>(value), source, where});
  return std::bit_cast<T>(static_cast<Bits>(answer));
}
template <class T> T __shfl_sync(std::uint32_t mask, T value, int source, const Where& where = Where::current()) {
  return shuffle(mask, value, static_cast<std::uint32_t>(source), where);
}
template <class T> T __shfl_xor_sync(std::uint32_t mask, T value, int bits, const Where& where = Where::current()) {
  return shuffle(mask, value, lane_of_warp() ^ static_cast<std::uint32_t>(bits), where);
}
template <class T> T __shfl_down_sync(std::uint32_t mask, T value, unsigned by, const Where& where = Where::current()) {
  const std::uint32_t source = lane_of_warp() + by;
  return shuffle(mask, value, source < on_host::kWarp ? source : lane_of_warp(), where);
}

inline int __ffs(int bits) { return __builtin_ffs(bits); }

// Arguments are the host's memory until they are the kernel's own: see memory_watch.h.
#define TUTTI_UNWATCHED __attribute__((no_sanitize("thread")))
template <class Call> TUTTI_UNWATCHED void run_call(const void* call) { (*static_cast<const Call*>(call))(); }

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t, const Arguments&... arguments) {
  const auto call = [&]() TUTTI_UNWATCHED { kernel(arguments...); };
  on_host::run_grid(blocks, threads, {run_call<decltype(call)>, &call});
}

}  // namespace tutti::cuda_kernels
