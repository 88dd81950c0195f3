// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/pooling.h>

namespace tutti {

using cuda_kernels::MeanPooling;
using cuda_kernels::PooledAxis;
using cuda_kernels::Pooling;

namespace {

Pooling pooling_of(const Pool2dGeometry& geometry, const Shape& input, const Shape& output) {
  const auto axis = [&](std::size_t i) {
    return PooledAxis{input[i + 2], output[i + 2], geometry.kernel[i], geometry.stride[i], geometry.padding[i]};
  };
  return {input[0] * input[1], axis(0), axis(1)};
}

}  // namespace

void CudaBackend::max_pool2d(const Pool2dGeometry& geometry, const Array& input, const Array& output,
                             const Array& index) {
  const Pooling pooling = pooling_of(geometry, input.shape(), output.shape());
  stream(output.device()).launch("max_pool2d", [&](cudaStream_t s) {
    cuda_kernels::launch_max_pool2d(s, input.dtype(), pooling, input.raw_data(), output.raw_data(),
                                    index.data<std::int64_t>());
  });
}

void CudaBackend::max_pool2d_gradient(const Pool2dGeometry& geometry, const Array& gradient, const Array& index,
                                      const Array& input_gradient) {
  const Pooling pooling = pooling_of(geometry, input_gradient.shape(), gradient.shape());
  stream(gradient.device()).launch("max_pool2d_gradient", [&](cudaStream_t s) {
    cuda_kernels::launch_max_pool2d_gradient(s, gradient.dtype(), pooling, gradient.raw_data(),
                                             index.data<std::int64_t>(), input_gradient.raw_data());
  });
}

void CudaBackend::avg_pool2d(const AvgPool2dGeometry& geometry, const Array& input, const Array& output) {
  const MeanPooling means{pooling_of(geometry.windows(), input.shape(), output.shape()), geometry.count_include_pad};
  stream(output.device()).launch("avg_pool2d", [&](cudaStream_t s) {
    cuda_kernels::launch_avg_pool2d(s, input.dtype(), means, input.raw_data(), output.raw_data());
  });
}

void CudaBackend::avg_pool2d_gradient(const AvgPool2dGeometry& geometry, const Array& gradient,
                                      const Array& input_gradient) {
  const MeanPooling means{pooling_of(geometry.windows(), input_gradient.shape(), gradient.shape()),
                          geometry.count_include_pad};
  stream(gradient.device()).launch("avg_pool2d_gradient", [&](cudaStream_t s) {
    cuda_kernels::launch_avg_pool2d_gradient(s, gradient.dtype(), means, gradient.raw_data(),
                                             input_gradient.raw_data());
  });
}

}  // namespace tutti
