// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/wire.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

#include <algorithm>

namespace tutti::cuda_kernels {
namespace {

constexpr std::int64_t kMostWireBlocks = 1024;  // the grid strides on: these kernels run beside others
constexpr int kWireLanes = 8;                   // 16 bytes of the narrow type

template <class T> struct alignas(16) WireLanes {
  T value[kWireLanes];
};

template <class F> __global__ void __launch_bounds__(kThreads)
    travel_lanes(typename F::To* to, const typename F::From* from, std::int64_t count, F f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t whole = count / kWireLanes;
  for (std::int64_t i = first; i < whole; i += stride) {
    const auto values = reinterpret_cast<const WireLanes<typename F::From>*>(from)[i];
    WireLanes<typename F::To> results;
    for (int lane = 0; lane < kWireLanes; ++lane) results.value[lane] = f(values.value[lane]);
    reinterpret_cast<WireLanes<typename F::To>*>(to)[i] = results;
  }
  for (std::int64_t i = whole * kWireLanes + first; i < count; i += stride) to[i] = f(from[i]);
}

// Slices begin at any element: those go one by one.
template <class F> __global__ void __launch_bounds__(kThreads)
    travel_elements(typename F::To* to, const typename F::From* from, std::int64_t count, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride)
    to[i] = f(from[i]);
}

template <class F>
void run(cudaStream_t stream, typename F::To* to, const typename F::From* from, std::int64_t count, F f) {
  if (count == 0) return;
  const bool in_lanes = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 == 0;
  const std::int64_t work = in_lanes ? (count + kWireLanes - 1) / kWireLanes : count;
  const auto blocks = static_cast<unsigned>(std::min(kMostWireBlocks, (work + kThreads - 1) / kThreads));
  launch(in_lanes ? travel_lanes<F> : travel_elements<F>, dim3(blocks), dim3(kThreads), stream, to, from, count, f);
}

}  // namespace

void launch_pack(cudaStream_t stream, DType wire, const float* values, void* packed, std::int64_t count, float scale) {
  auto* const to = static_cast<std::uint16_t*>(packed);
  if (wire == DType::bf16)
    run(stream, to, values, count, Packed<Bf16>{scale});
  else
    run(stream, to, values, count, Packed<F16>{scale});
}

void launch_unpack(cudaStream_t stream, DType wire, const void* packed, float* values, std::int64_t count) {
  const auto* const from = static_cast<const std::uint16_t*>(packed);
  if (wire == DType::bf16)
    run(stream, values, from, count, Unpacked<Bf16>{});
  else
    run(stream, values, from, count, Unpacked<F16>{});
}

}  // namespace tutti::cuda_kernels
