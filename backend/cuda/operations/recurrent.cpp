// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/recurrent.h>

namespace tutti {
namespace {

std::byte* data_or_null(const Array& array) { return array.defined() ? array.raw_data() : nullptr; }

}  // namespace

void CudaBackend::recurrent_step(RecurrentGates gates, const Array& input_part, const Array& product, const Array& bias,
                                 const Array& hidden, const Array& cell, const Array& output, const Array& kept,
                                 const Array& hidden_before, const Array& cell_before) {
  const cuda_kernels::RecurrentStepArrays arrays{.rows = output.length(0),
                                                 .length = output.length(1),
                                                 .input_part = input_part.raw_data(),
                                                 .product = product.raw_data(),
                                                 .bias = data_or_null(bias),
                                                 .hidden = hidden.raw_data(),
                                                 .cell = data_or_null(cell),
                                                 .output = output.raw_data(),
                                                 .kept = data_or_null(kept),
                                                 .hidden_before = data_or_null(hidden_before),
                                                 .cell_before = data_or_null(cell_before)};
  stream(output.device()).launch("recurrent_step", [&](cudaStream_t s) {
    cuda_kernels::launch_recurrent_step(s, gates, output.dtype(), arrays);
  });
}

void CudaBackend::recurrent_step_gradient(RecurrentGates gates, const Array& kept, const Array& hidden_before,
                                          const Array& cell_before, const Array& gradient, const Array& input_gradient,
                                          const Array& product_gradient, const Array& hidden_gradient,
                                          const Array& cell_gradient) {
  const cuda_kernels::RecurrentGradientArrays arrays{.rows = gradient.length(0),
                                                     .length = gradient.length(1),
                                                     .kept = kept.raw_data(),
                                                     .hidden_before = data_or_null(hidden_before),
                                                     .cell_before = data_or_null(cell_before),
                                                     .gradient = gradient.raw_data(),
                                                     .hidden_gradient = hidden_gradient.raw_data(),
                                                     .cell_gradient = data_or_null(cell_gradient),
                                                     .input_gradient = input_gradient.raw_data(),
                                                     .product_gradient = data_or_null(product_gradient)};
  stream(gradient.device()).launch("recurrent_step_gradient", [&](cudaStream_t s) {
    cuda_kernels::launch_recurrent_step_gradient(s, gates, gradient.dtype(), arrays);
  });
}

}  // namespace tutti
