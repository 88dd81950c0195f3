// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/reduce.h>
#include <tutti/backend/cuda/plans/reduce_shape.h>

namespace tutti {

void CudaBackend::reduce(Reduction kind, const Array& input, const Array& output) {
  const cuda_kernels::ReduceShape shape = reduce_shape(input, output);
  const Storage partial = workspace(output.device(), static_cast<std::size_t>(shape.partial_bytes()));
  stream(output.device()).launch("reduce", [&](cudaStream_t s) {
    cuda_kernels::launch_reduce(s, kind, input.dtype(), shape, input.raw_data(), output.raw_data(), partial.data());
  });
}

}  // namespace tutti
