// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/gather.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

namespace tutti::cuda_kernels {
namespace {

template <class T> __global__ void __launch_bounds__(kThreads)
    gather_elements(const Selection selection, const T* __restrict__ from, const std::int64_t* __restrict__ index,
                    T* __restrict__ to, IndexFault* fault) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < selection.size; i += step) {
    const StridedAxes::Offsets at = selection.axes.offsets(i);
    const std::int64_t chosen = index[at.to];
    T value{};
    if (selection.in_range(chosen))
      value = from[at.from + chosen * selection.axis_stride];
    else
      selection.report(fault, IndexFault::Operation::gather, chosen);
    to[i] = value;
  }
}

template <class T> void launch_typed(cudaStream_t stream, const Selection& selection, const void* from,
                                     const std::int64_t* index, void* to, IndexFault* fault) {
  launch(gather_elements<T>, blocks_for(selection.size), kThreads, stream, selection, static_cast<const T*>(from),
         index, static_cast<T*>(to), fault);
}

}  // namespace

void launch_gather(cudaStream_t stream, DType dtype, const Selection& selection, const void* from,
                   const std::int64_t* index, void* to, IndexFault* fault) {
  switch (size_of(dtype)) {  // elements are copied: only their size matters
    case 8: return launch_typed<std::uint64_t>(stream, selection, from, index, to, fault);
    case 2: return launch_typed<std::uint16_t>(stream, selection, from, index, to, fault);
    case 4: return launch_typed<std::uint32_t>(stream, selection, from, index, to, fault);
    default: return launch_typed<std::uint8_t>(stream, selection, from, index, to, fault);
  }
}

}  // namespace tutti::cuda_kernels
