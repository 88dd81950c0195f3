// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/cumsum.h>

namespace tutti {

void CudaBackend::cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) {
  const auto lines = cuda_kernels::AxisLines::of(input.shape(), axis);
  stream(output.device()).launch("cumsum", [&](cudaStream_t s) {
    cuda_kernels::launch_cumsum(s, input.dtype(), lines, reverse, input.raw_data(), output.raw_data());
  });
}

void CudaBackend::running_arg(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  const auto lines = cuda_kernels::AxisLines::of(input.shape(), axis);
  stream(output.device()).launch(kind == ArgReduction::arg_max ? "cummax" : "cummin", [&](cudaStream_t s) {
    cuda_kernels::launch_running_arg(s, kind, input.dtype(), lines, input.raw_data(), output.data<std::int64_t>());
  });
}

}  // namespace tutti
