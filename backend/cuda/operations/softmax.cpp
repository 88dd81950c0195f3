// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/softmax.h>

namespace tutti {

using cuda_kernels::AxisLines;

// Elements below which each of many lines has a warp. Two passes over one array: on an H100 lines of 1,024 move 66 % of
// what a copy does with warps, and 40 % with blocks. The gradient's, over two arrays, move 61 % and 93 %.
constexpr std::int64_t kForWarps = 2048;

void CudaBackend::softmax(SoftmaxKind kind, const Array& input, std::size_t axis, const Array& output) {
  stream(output.device()).launch(kind == SoftmaxKind::softmax ? "softmax" : "log_softmax", [&](cudaStream_t s) {
    cuda_kernels::launch_softmax(s, kind, input.dtype(), AxisLines::of(input.shape(), axis, kForWarps),
                                 input.raw_data(), output.raw_data());
  });
}

void CudaBackend::softmax_gradient(SoftmaxKind kind, const Array& output, const Array& gradient, std::size_t axis,
                                   const Array& input_gradient) {
  stream(output.device())
      .launch(kind == SoftmaxKind::softmax ? "softmax_gradient" : "log_softmax_gradient", [&](cudaStream_t s) {
        cuda_kernels::launch_softmax_gradient(s, kind, output.dtype(), AxisLines::of(output.shape(), axis),
                                              output.raw_data(), gradient.raw_data(), input_gradient.raw_data());
      });
}

}  // namespace tutti
