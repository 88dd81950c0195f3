// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/raise.h>

namespace tutti {

std::atomic<const LinearAlgebraKernels*> CpuBackend::linear_algebra_{nullptr};

const LinearAlgebraKernels& CpuBackend::linear_algebra() {
  const LinearAlgebraKernels* const kernels = linear_algebra_.load();
  if (kernels == nullptr)
    raise<DeviceError>(
        "[cpu] kernels of linear algebra come with the functions of backend/linear_algebra/linear_algebra.h, and none "
        "was called");
  return *kernels;
}

void CpuBackend::factorize(Factorization kind, const Array& input, const Array& output) {
  linear_algebra().factorize(*this, kind, input, output);
}

void CpuBackend::lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) {
  linear_algebra().lu(*this, input, factors, permutation, sign);
}

void CpuBackend::solve_triangular(const TriangularSystem& system, const Array& matrix, const Array& right,
                                  const Array& output) {
  linear_algebra().solve_triangular(*this, system, matrix, right, output);
}

}  // namespace tutti
