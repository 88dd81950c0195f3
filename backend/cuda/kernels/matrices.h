// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels for what cuSOLVER and cuBLAS leave to their callers. Matrices are row-major.

#include <tutti/backend/calls/matrix_defect.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/numbers/host_device.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tutti::cuda_kernels {

/// A defect that a kernel found in a matrix, in host memory that the device writes to. Threads that find defects at the
/// same time overwrite each other's place; any of them will do, and `kind` is told last.
struct MatrixFault {
  volatile MatrixDefect::Kind kind = MatrixDefect::Kind::none;
  volatile std::uint64_t place = 0;  // matrix and pivot, below 2^31 both, in one store: they belong together

  TUTTI_HOST_DEVICE void tell(MatrixDefect::Kind what, std::int64_t matrix, std::int64_t pivot) {
    place = static_cast<std::uint64_t>(matrix) << 32U | static_cast<std::uint64_t>(pivot);
    kind = what;
  }
  std::int64_t matrix() const { return static_cast<std::int64_t>(place >> 32U); }
  std::int64_t pivot() const { return static_cast<std::int64_t>(place & 0xffffffffU); }
};

/// `count` matrices [rows, columns] whose rows are `columns` apart, each `distance` elements behind the one before.
struct MatrixBatch {
  std::int64_t count;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t distance;
};

/// pointers[i] = first + i * bytes, of `count`.
void launch_point_at(cudaStream_t, void* first, std::int64_t bytes, std::int64_t count, void** pointers);
/// Zeros above the diagonal, or below it.
void launch_clear_triangle(cudaStream_t, DType, const MatrixBatch&, bool upper, void* matrices);
/// Makes the permutation and its sign from LAPACK's exchanges of rows, [count, n] that count from 1.
void launch_permutation(cudaStream_t, DType, std::int64_t count, std::int64_t n, const int* exchanges,
                        std::int64_t* permutation, void* sign);

/// Makes the last pivot of each matrix that has a NaN NaN. `factors`: of as many elements, as far apart.
void launch_spread_nan(cudaStream_t, DType, const MatrixBatch&, const void* matrices, void* factors);

// --- defects. Each is told of one matrix of those that have it.
void launch_report_status(cudaStream_t, MatrixDefect::Kind, std::int64_t count, const int* status, MatrixFault*);
void launch_report_not_finite(cudaStream_t, DType, const MatrixBatch&, const void* matrices, MatrixFault*);
/// Clears the status of matrices with elements that are not finite.
void launch_forgive_not_finite(cudaStream_t, DType, const MatrixBatch&, const void* matrices, int* status);
/// A diagonal with a 0, or, for what is to be positive definite, with an element that is not above 0 or infinite.
void launch_report_diagonal(cudaStream_t, DType, MatrixDefect::Kind, const MatrixBatch&, const void* matrices,
                            MatrixFault*);

}  // namespace tutti::cuda_kernels
