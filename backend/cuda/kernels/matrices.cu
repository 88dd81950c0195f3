// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/matrices.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

using Kind = MatrixDefect::Kind;

/// Calls f(i) for i < count, spread over all threads.
template <class F> __device__ void for_each(std::int64_t count, const F& f) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += threads) f(i);
}

__global__ void __launch_bounds__(kThreads)
    point_at(std::byte* first, std::int64_t bytes, std::int64_t count, void** pointers) {
  for_each(count, [=](std::int64_t i) { pointers[i] = first + i * bytes; });
}

template <class T> __global__ void __launch_bounds__(kThreads)
    clear_triangle(const MatrixBatch batch, bool upper, T* matrices) {
  const std::int64_t size = batch.rows * batch.columns;
  for_each(batch.count * size, [=](std::int64_t i) {
    const std::int64_t row = i % size / batch.columns;
    const std::int64_t column = i % batch.columns;
    if (upper ? column > row : column < row) matrices[i / size * batch.distance + i % size] = T(0);
  });
}

// A thread for each matrix: exchanges come one after the other.
template <class T> __global__ void __launch_bounds__(kThreads)
    permutation_of(std::int64_t count, std::int64_t n, const int* exchanges, std::int64_t* permutation, T* sign) {
  for_each(count, [=](std::int64_t matrix) {
    std::int64_t* const places = permutation + matrix * n;
    bool odd = false;
    for (std::int64_t i = 0; i < n; ++i) places[i] = i;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t other = exchanges[matrix * n + i] - 1;
      if (other <= i || other >= n) continue;  // none; NaN may have left what is no row
      const std::int64_t place = places[i];
      places[i] = places[other];
      places[other] = place;
      odd = !odd;
    }
    sign[matrix] = odd ? T(-1) : T(1);
  });
}

__global__ void __launch_bounds__(kThreads)
    report_status(Kind kind, std::int64_t count, const int* status, MatrixFault* fault) {
  for_each(count, [=](std::int64_t i) {
    if (status[i] != 0) fault->tell(kind, i, 0);
  });
}

template <class T> __global__ void __launch_bounds__(kThreads)
    report_not_finite(const MatrixBatch batch, const T* matrices, MatrixFault* fault) {
  const std::int64_t size = batch.rows * batch.columns;
  for_each(batch.count * size, [=](std::int64_t i) {
    const T x = matrices[i / size * batch.distance + i % size];
    if (!(x - x == T(0))) fault->tell(Kind::not_finite, i / size, 0);
  });
}

// What is told already is not told once more, for another reason.
template <class T> __global__ void __launch_bounds__(kThreads)
    forgive_not_finite(const MatrixBatch batch, const T* matrices, int* status) {
  const std::int64_t size = batch.rows * batch.columns;
  for_each(batch.count * size, [=](std::int64_t i) {
    const T x = matrices[i / size * batch.distance + i % size];
    if (!(x - x == T(0))) status[i / size] = 0;
  });
}

// A pivot is looked for by comparisons, which NaN fails: it could go without a trace. From the last pivot it reaches
// the determinant, and all of a solution.
template <class T> __global__ void __launch_bounds__(kThreads)
    spread_nan(const MatrixBatch batch, const T* matrices, T* factors) {
  const std::int64_t size = batch.rows * batch.columns;
  for_each(batch.count * size, [=](std::int64_t i) {
    const std::int64_t first = i / size * batch.distance;
    const T x = matrices[first + i % size];
    if (x != x) factors[first + size - 1] = x;
  });
}

// A thread for each matrix, so that the first such place is told.
template <class T> __global__ void __launch_bounds__(kThreads)
    report_diagonal(Kind kind, const MatrixBatch batch, const T* matrices, MatrixFault* fault) {
  for_each(batch.count, [=](std::int64_t matrix) {
    for (std::int64_t i = 0; i < batch.rows; ++i) {
      const T x = matrices[matrix * batch.distance + i * (batch.columns + 1)];
      if (kind == Kind::singular ? x != T(0) : x > T(0) && x - x == T(0)) continue;
      return fault->tell(kind, matrix, i);
    }
  });
}

template <class F> void visit_solved(DType dtype, const F& f) {
  dtype == DType::f64 ? f(std::type_identity<double>{}) : f(std::type_identity<float>{});
}

}  // namespace

void launch_point_at(cudaStream_t stream, void* first, std::int64_t bytes, std::int64_t count, void** pointers) {
  launch(point_at, blocks_for(count), kThreads, stream, static_cast<std::byte*>(first), bytes, count, pointers);
}

void launch_clear_triangle(cudaStream_t stream, DType dtype, const MatrixBatch& batch, bool upper, void* matrices) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(clear_triangle<T>, blocks_for(batch.count * batch.rows * batch.columns), kThreads, stream, batch, upper,
           static_cast<T*>(matrices));
  });
}

void launch_permutation(cudaStream_t stream, DType dtype, std::int64_t count, std::int64_t n, const int* exchanges,
                        std::int64_t* permutation, void* sign) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(permutation_of<T>, blocks_for(count), kThreads, stream, count, n, exchanges, permutation,
           static_cast<T*>(sign));
  });
}

void launch_report_status(cudaStream_t stream, Kind kind, std::int64_t count, const int* status, MatrixFault* fault) {
  launch(report_status, blocks_for(count), kThreads, stream, kind, count, status, fault);
}

void launch_report_not_finite(cudaStream_t stream, DType dtype, const MatrixBatch& batch, const void* matrices,
                              MatrixFault* fault) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(report_not_finite<T>, blocks_for(batch.count * batch.rows * batch.columns), kThreads, stream, batch,
           static_cast<const T*>(matrices), fault);
  });
}

void launch_forgive_not_finite(cudaStream_t stream, DType dtype, const MatrixBatch& batch, const void* matrices,
                               int* status) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(forgive_not_finite<T>, blocks_for(batch.count * batch.rows * batch.columns), kThreads, stream, batch,
           static_cast<const T*>(matrices), status);
  });
}

void launch_spread_nan(cudaStream_t stream, DType dtype, const MatrixBatch& batch, const void* matrices,
                       void* factors) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(spread_nan<T>, blocks_for(batch.count * batch.rows * batch.columns), kThreads, stream, batch,
           static_cast<const T*>(matrices), static_cast<T*>(factors));
  });
}

void launch_report_diagonal(cudaStream_t stream, DType dtype, Kind kind, const MatrixBatch& batch, const void* matrices,
                            MatrixFault* fault) {
  visit_solved(dtype, [&]<class T>(std::type_identity<T>) {
    launch(report_diagonal<T>, blocks_for(batch.count), kThreads, stream, kind, batch, static_cast<const T*>(matrices),
           fault);
  });
}

}  // namespace tutti::cuda_kernels
