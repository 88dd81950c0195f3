// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/copy.h>

#include <tutti/backend/cuda/kernels/element_loops.cuh>

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

/// Calls `f` with an integer of that size.
template <class F> void visit_bytes(std::size_t element_bytes, const F& f) {
  switch (element_bytes) {
    case 8: return f(std::uint64_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint8_t{});
  }
}

}  // namespace

void launch_copy(cudaStream_t stream, std::size_t element_bytes, const ElementBatch& batch) {
  visit_bytes(element_bytes, [&]<class T>(T) { launch_elements<T, T>(stream, batch, Same<T>{}); });
}

void launch_fill(cudaStream_t stream, std::size_t element_bytes, std::uint64_t element, const ElementBatch& batch) {
  visit_bytes(element_bytes,
              [&]<class T>(T) { launch_elements<T>(stream, batch, Constant<T>{static_cast<T>(element)}); });
}

void launch_where(cudaStream_t stream, std::size_t element_bytes, const ElementBatch& batch) {
  visit_bytes(element_bytes, [&]<class T>(T) { launch_elements<T, bool, T, T>(stream, batch, Choose<T>{}); });
}

}  // namespace tutti::cuda_kernels
