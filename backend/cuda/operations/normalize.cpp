// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/normalize.h>

namespace tutti {
namespace {

using cuda_kernels::AxisLines;
using cuda_kernels::RowOperands;

void* data_or_null(const Array& array) { return array.defined() ? array.raw_data() : nullptr; }

}  // namespace

void CudaBackend::normalize_rows(const RowNorm& norm, const Array& input, const Array& weight, const Array& bias,
                                 const Array& output, const Array& mean, const Array& scale) {
  stream(output.device()).launch("normalize_rows", [&](cudaStream_t s) {
    const RowOperands rows{input.raw_data(), data_or_null(weight), data_or_null(bias), mean.raw_data(),
                           scale.raw_data()};
    cuda_kernels::launch_normalize_rows(s, norm, input.dtype(), AxisLines::of(input.shape(), 1), rows,
                                        output.raw_data());
  });
}

void CudaBackend::normalize_rows_gradient(const RowNorm& norm, const Array& input, const Array& weight,
                                          const Array& mean, const Array& scale, const Array& gradient,
                                          const Array& input_gradient) {
  stream(input.device()).launch("normalize_rows_gradient", [&](cudaStream_t s) {
    const RowOperands rows{input.raw_data(), data_or_null(weight), nullptr, mean.raw_data(), scale.raw_data()};
    cuda_kernels::launch_normalize_rows_gradient(s, norm, input.dtype(), AxisLines::of(input.shape(), 1), rows,
                                                 gradient.raw_data(), input_gradient.raw_data());
  });
}

void CudaBackend::normalize_rows_sums(const Array& input, const Array& mean, const Array& scale, const Array& gradient,
                                      const Array& weight_sums, const Array& bias_sums) {
  stream(input.device()).launch("normalize_rows_sums", [&](cudaStream_t s) {
    const RowOperands rows{input.raw_data(), nullptr, nullptr, mean.raw_data(), scale.raw_data()};
    cuda_kernels::launch_normalize_rows_sums(s, input.dtype(), input.shape()[0], input.shape()[1],
                                             weight_sums.shape()[0], rows, gradient.raw_data(), weight_sums.raw_data(),
                                             data_or_null(bias_sums));
  });
}

}  // namespace tutti
