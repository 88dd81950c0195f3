// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

namespace tutti {

void CudaBackend::fourier(const FourierTransform& transform, const Array& input, const Array& output) {
  const bool real = transform.kind == FourierTransform::Kind::real_to_complex;
  const std::int64_t numbers =
      transform.kind == FourierTransform::Kind::complex ? transform.length : transform.length / 2 + 1;
  const std::int64_t rows = input.size() / (real ? transform.length : 2 * numbers);
  context(output.device()).transforms.run(transform, output.dtype(), rows, input.raw_data(), output.raw_data());
}

}  // namespace tutti
