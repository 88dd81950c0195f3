// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/convolution_mapping.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// f32 and f64. The same order of additions on every run and device.
void launch_convolution(cudaStream_t, DType, const ForwardProduct&, const void* weight, const void* input, void* output,
                        void* partial);
void launch_convolution(cudaStream_t, DType, const InputGradientProduct&, const void* weight, const void* gradient,
                        void* input_gradient, void* partial);
void launch_convolution(cudaStream_t, DType, const WeightGradientProduct&, const void* gradient, const void* input,
                        void* weight_gradient, void* partial);

/// The same for products that are narrow (`is_narrow`): no tiles. A thread sums an element of the result alone, or a
/// block does together where sums are long. Defined for the three products.
template <class Product>
void launch_narrow_convolution(cudaStream_t, DType, const Product&, const void* lhs, const void* rhs, void* to);

}  // namespace tutti::cuda_kernels
