// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/copy.h>
#include <tutti/backend/cuda/kernels/parts/element_loops.cuh>
#include <tutti/backend/numbers/conversion.h>

namespace tutti::cuda_kernels {
namespace {

template <class To, class From> struct Convert {
  __device__ __forceinline__ To operator()(From x) const { return convert<To>(x); }
};

}  // namespace

void launch_cast(cudaStream_t stream, DType from, DType to, const ElementBatch& batch) {
  visit_dtype(from, [&]<class From>(std::type_identity<From>) {
    if constexpr (is_narrow(dtype_of<From>)) {
      using Wide = ComputedIn<From>;
      launch_elements<Wide, From>(stream, batch, Convert<Wide, From>{});
    } else {
      visit_dtype(
          to, [&]<class To>(std::type_identity<To>) { launch_elements<To, From>(stream, batch, Convert<To, From>{}); });
    }
  });
}

}  // namespace tutti::cuda_kernels
