// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>

namespace tutti {

class Array;
class CpuBackend;

/// The CPU's kernels of factorizations and linear systems, by address and not by name: Eigen's decompositions take
/// longer to compile than anything else here, and a program that calls nothing of
/// backend/linear_algebra/linear_algebra.h links none of them.
struct LinearAlgebraKernels {
  void (*factorize)(CpuBackend&, Factorization, const Array& input, const Array& output);
  void (*lu)(CpuBackend&, const Array& input, const Array& factors, const Array& permutation, const Array& sign);
  void (*solve_triangular)(CpuBackend&, const TriangularSystem&, const Array& matrix, const Array& right,
                           const Array& output);
};

/// Gives them to the CPU's backend; any thread, any number of times. Called by the functions of
/// backend/linear_algebra/linear_algebra.h: that reference makes the linker take the kernels.
void provide_linear_algebra() noexcept;

}  // namespace tutti
