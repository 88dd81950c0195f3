// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/arg_reduce.h>

namespace tutti {

void CudaBackend::arg_reduce(ArgReduction kind, const Array& input, std::size_t axis, const Array& output) {
  const Array from = input.contiguous();
  const auto lines = cuda_kernels::AxisLines::of(from.shape(), axis, cuda_kernels::LineLayout::kOnePass);
  stream(output.device()).launch(kind == ArgReduction::arg_max ? "argmax" : "argmin", [&](cudaStream_t s) {
    cuda_kernels::launch_arg_reduce(s, kind, from.dtype(), lines, from.raw_data(), output.data<std::int64_t>());
  });
}

}  // namespace tutti
