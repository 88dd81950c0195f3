// SPDX-License-Identifier: Apache-2.0
// Matrices are row-major here and column-major to cuSOLVER: to it the transposed matrix lies in the same memory.
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/libraries/cublas_check.h>
#include <tutti/backend/cuda/libraries/solver_functions.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <limits>

namespace tutti {

using cuda_kernels::MatrixBatch;
using Kind = MatrixDefect::Kind;

namespace {

template <class F> void visit_type(DType dtype, const F& f) {
  dtype == DType::f64 ? f(std::type_identity<double>{}) : f(std::type_identity<float>{});
}

// cuSOLVER and cuBLAS count in 32 bits.
int counted(std::string_view operation, const Array& operand, std::int64_t count) {
  if (count < 0 || count > std::numeric_limits<int>::max())
    raise<ShapeError>("[{}] {} is more than CUDA devices take apart", operation, to_string(operand.shape()));
  return static_cast<int>(count);
}

int length_of(std::string_view operation, const Array& operand, std::int64_t axis) {
  return counted(operation, operand, operand.length(axis));
}

MatrixBatch batch_of(const Array& operand) {
  const std::int64_t size = operand.length(-2) * operand.length(-1);
  return {operand.size() / size, operand.length(-2), operand.length(-1), size};
}

/// What is taken apart. ShapeError for matrices that are too large, or too many.
const Array& factorizable(std::string_view operation, const Array& input) {
  const MatrixBatch batch = batch_of(input);
  counted(operation, input, batch.distance);
  counted(operation, input, batch.count);
  return input;
}

}  // namespace

/// One operation on one device: its handles, its memory, and what its matrices are told by.
class CudaBackend::MatrixWork {
 public:
  MatrixWork(CudaBackend& backend, std::string_view operation, const Array& input)
      : backend_(backend),
        own_(backend.context(input.device())),
        device_(input.device()),
        operation_(operation),
        dtype_(input.dtype()),
        matrices_(batch_of(input)),
        status_(Array::empty({matrices_.count}, DType::i32, device_)) {}

  Array array(const Shape& shape) const { return Array::empty(shape, dtype_, device_); }
  int* status(std::int64_t matrix = 0) const { return status_.data<std::int32_t>() + matrix; }
  void** pointers(cudaStream_t stream, Storage& memory, const Array& matrices) const {
    auto** const found = reinterpret_cast<void**>(memory.data());
    const MatrixBatch batch = batch_of(matrices);
    const auto bytes = batch.distance * static_cast<std::int64_t>(size_of(dtype_));
    cuda_kernels::launch_point_at(stream, matrices.raw_data(), bytes, batch.count, found);
    return found;
  }
  Storage pointer_memory() const {
    return backend_.workspace(device_, static_cast<std::size_t>(matrices_.count) * sizeof(void*));
  }

  /// The matrices with columns where rows were: what lies in this memory is column-major, or row-major again.
  Array transposed(const Array& input) const {
    Array result = array(input.transpose().shape());
    backend_.copy(input.transpose(), result);
    return result;
  }

  /// `work(stream, handles, functions, T)` with the device current.
  template <class Work> void run(const Work& work) const {
    own_.compute.launch(operation_, [&](cudaStream_t stream) {
      const SolverHandles::Held held = own_.solvers.hold(operation_);
      visit_type(dtype_, [&]<class T>(std::type_identity<T> type) { work(stream, held, type); });
    });
  }
  /// `call(matrix, workspace, its length)` for each, with a workspace of that many elements.
  template <class T, class Call> void for_each(int workspace, const Call& call) const {
    if (workspace < 0)  // its length did not fit
      raise<ShapeError>("[{}] matrices of {} x {} are more than CUDA devices take apart", operation_, matrices_.rows,
                        matrices_.columns);
    const Storage memory = backend_.workspace(device_, static_cast<std::size_t>(std::max(workspace, 1)) * sizeof(T));
    for (std::int64_t i = 0; i < matrices_.count; ++i) call(i, reinterpret_cast<T*>(memory.data()), workspace);
  }
  void solver(cusolverStatus_t status, const char* call) const {
    if (status != CUSOLVER_STATUS_SUCCESS) cuda_runtime::raise_cusolver_error(status, call, device_, operation_);
  }
  void blas(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) cuda_runtime::raise_cublas_error(status, call, device_, operation_);
  }

  // --- defects
  void report_status(cudaStream_t stream, Kind kind) const {
    cuda_kernels::launch_report_status(stream, kind, matrices_.count, status(), fault());
  }
  void report_not_finite(cudaStream_t stream, const Array& input) const {
    cuda_kernels::launch_report_not_finite(stream, dtype_, batch_of(input), input.raw_data(), fault());
  }
  void report_no_convergence(cudaStream_t stream, const Array& input) const {
    cuda_kernels::launch_forgive_not_finite(stream, dtype_, batch_of(input), input.raw_data(), status());
    report_status(stream, Kind::no_convergence);
  }
  void report_diagonal(cudaStream_t stream, Kind kind, const Array& input) const {
    cuda_kernels::launch_report_diagonal(stream, dtype_, kind, batch_of(input), input.raw_data(), fault());
  }

  void cholesky(const Array& input, const Array& output) const;
  void qr(const Array& input, const Array& output) const;
  void svd(const Array& input, bool with_vectors, const Array& output) const;
  void eigh(const Array& input, bool with_vectors, const Array& output) const;
  void lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) const;

 private:
  cuda_kernels::MatrixFault* fault() const { return own_.matrix_faults.report(operation_); }

  CudaBackend& backend_;
  Context& own_;
  Device device_;
  std::string_view operation_;
  DType dtype_;
  MatrixBatch matrices_;
  Array status_;
};

namespace {

/// Up to this many rows matrices of a batch are taken apart together: larger ones fill the device one by one.
constexpr int kMostTogether = 512;

Array rows_of(const Array& parts, std::int64_t begin, std::int64_t end) { return parts.slice(-2, begin, end); }

}  // namespace

// The lower triangle that is read, and written, is the upper one of cuSOLVER's matrix.
void CudaBackend::MatrixWork::cholesky(const Array& input, const Array& output) const {
  const int n = length_of(operation_, input, -1);
  const auto uplo = CUBLAS_FILL_MODE_UPPER;
  backend_.copy(input, output);
  run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T>) {
    using Functions = SolverFunctions<T>;
    if (matrices_.count > 1 && n <= kMostTogether) {
      Storage memory = pointer_memory();
      auto** const each = reinterpret_cast<T**>(pointers(stream, memory, output));
      solver(Functions::potrf_batched(held.solver, uplo, n, each, n, status(), static_cast<int>(matrices_.count)),
             "potrfBatched");
    } else {
      int size = 0;
      solver(Functions::potrf_size(held.solver, uplo, n, output.data<T>(), n, &size), "potrf_bufferSize");
      for_each<T>(size, [&](std::int64_t i, T* workspace, int length) {
        T* const matrix = output.data<T>() + i * matrices_.distance;
        solver(Functions::potrf(held.solver, uplo, n, matrix, n, workspace, length, status(i)), "potrf");
      });
    }
    report_status(stream, Kind::not_positive_definite);
    report_diagonal(stream, Kind::not_positive_definite, output);
    cuda_kernels::launch_clear_triangle(stream, dtype_, matrices_, true, output.raw_data());
  });
}

void CudaBackend::MatrixWork::qr(const Array& input, const Array& output) const {
  const int m = length_of(operation_, input, -2);
  const int n = length_of(operation_, input, -1);
  const Array columns = transposed(input);  // then cuSOLVER's rows are the input's
  const Array scales = array({matrices_.count, n});
  const auto matrix = [&]<class T>(std::type_identity<T>, std::int64_t i) {
    return columns.data<T>() + i * matrices_.distance;
  };
  run([&]<class T>(cudaStream_t, const SolverHandles::Held& held, std::type_identity<T> type) {
    int size = 0;
    solver(SolverFunctions<T>::geqrf_size(held.solver, m, n, columns.data<T>(), m, &size), "geqrf_bufferSize");
    for_each<T>(size, [&](std::int64_t i, T* workspace, int length) {
      solver(SolverFunctions<T>::geqrf(held.solver, m, n, matrix(type, i), m, scales.data<T>() + i * n, workspace,
                                       length, status(i)),
             "geqrf");
    });
  });
  const Array r = array(rows_of(output, m, m + n).shape());
  backend_.copy(rows_of(columns.transpose(), 0, n), r);
  run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T> type) {
    cuda_kernels::launch_clear_triangle(stream, dtype_, batch_of(r), false, r.raw_data());
    int size = 0;
    solver(SolverFunctions<T>::orgqr_size(held.solver, m, n, n, columns.data<T>(), m, scales.data<T>(), &size),
           "orgqr_bufferSize");
    for_each<T>(size, [&](std::int64_t i, T* workspace, int length) {
      solver(SolverFunctions<T>::orgqr(held.solver, m, n, n, matrix(type, i), m, scales.data<T>() + i * n, workspace,
                                       length, status(i)),
             "orgqr");
    });
  });
  backend_.copy(columns.transpose(), rows_of(output, 0, m));
  backend_.copy(r, rows_of(output, m, m + n));
}

// cuSOLVER takes tall matrices only: of a wide one, which is tall to it, the transposed is taken apart.
void CudaBackend::MatrixWork::svd(const Array& input, bool with_vectors, const Array& output) const {
  const int m = length_of(operation_, input, -2);
  const int n = length_of(operation_, input, -1);
  const bool wide = m < n;
  const int longer = std::max(m, n);
  const int shorter = std::min(m, n);
  const Array columns = wide ? array(input.shape()) : transposed(input);  // is overwritten
  if (wide) backend_.copy(input, columns);
  const Array values = array(rows_of(output, output.length(-2) - 1, output.length(-2)).shape());
  const Array left = with_vectors ? array(columns.shape()) : Array();  // [shorter, longer], vectors as rows
  const Array right = with_vectors ? array(rows_of(columns, 0, shorter).slice(-1, 0, shorter).shape()) : Array();
  run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T>) {
    report_not_finite(stream, input);
    const signed char job = with_vectors ? 'S' : 'N';
    const auto part = [with_vectors](const Array& parts, std::int64_t place) {
      return with_vectors ? parts.data<T>() + place : nullptr;
    };
    int size = 0;
    solver(SolverFunctions<T>::gesvd_size(held.solver, longer, shorter, &size), "gesvd_bufferSize");
    for_each<T>(size, [&](std::int64_t i, T* workspace, int length) {
      solver(
          SolverFunctions<T>::gesvd(held.solver, job, job, longer, shorter, columns.data<T>() + i * matrices_.distance,
                                    longer, values.data<T>() + i * shorter, part(left, i * matrices_.distance), longer,
                                    part(right, i * shorter * shorter), shorter, workspace, length, nullptr, status(i)),
          "gesvd");
    });
    report_no_convergence(stream, input);
  });
  backend_.copy(values, rows_of(output, output.length(-2) - 1, output.length(-2)));
  if (!with_vectors) return;
  backend_.copy(left.transpose(), wide ? rows_of(output, m, m + n) : rows_of(output, 0, m));
  backend_.copy(right, wide ? rows_of(output, 0, m) : rows_of(output, m, m + n));  // column-major V^T is row-major V
}

void CudaBackend::MatrixWork::eigh(const Array& input, bool with_vectors, const Array& output) const {
  const int n = length_of(operation_, input, -1);
  const Array vectors = array(input.shape());
  backend_.copy(input, vectors);
  const Array values = array(rows_of(output, 0, 1).shape());
  const auto job = with_vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const auto uplo = CUBLAS_FILL_MODE_UPPER;
  run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T>) {
    report_not_finite(stream, input);
    int size = 0;
    solver(SolverFunctions<T>::syevd_size(held.solver, job, uplo, n, vectors.data<T>(), n, values.data<T>(), &size),
           "syevd_bufferSize");
    for_each<T>(size, [&](std::int64_t i, T* workspace, int length) {
      solver(SolverFunctions<T>::syevd(held.solver, job, uplo, n, vectors.data<T>() + i * matrices_.distance, n,
                                       values.data<T>() + i * n, workspace, length, status(i)),
             "syevd");
    });
    report_no_convergence(stream, input);
  });
  backend_.copy(values, rows_of(output, output.length(-2) - 1, output.length(-2)));
  if (with_vectors) backend_.copy(vectors.transpose(), rows_of(output, 0, n));
}

void CudaBackend::MatrixWork::lu(const Array& input, const Array& factors, const Array& permutation,
                                 const Array& sign) const {
  const int n = length_of(operation_, input, -1);
  const Array columns = transposed(input);
  const Array exchanges = Array::empty({matrices_.count, n}, DType::i32, device_);
  run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T>) {
    using Functions = SolverFunctions<T>;
    auto* const pivots = exchanges.data<std::int32_t>();
    if (matrices_.count > 1 && n <= kMostTogether) {
      Storage memory = pointer_memory();
      auto** const each = reinterpret_cast<T**>(pointers(stream, memory, columns));
      blas(Functions::getrf_batched(held.blas, n, each, n, pivots, status(), static_cast<int>(matrices_.count)),
           "getrfBatched");
    } else {
      int size = 0;
      solver(Functions::getrf_size(held.solver, n, n, columns.data<T>(), n, &size), "getrf_bufferSize");
      for_each<T>(size, [&](std::int64_t i, T* workspace, int) {
        solver(Functions::getrf(held.solver, n, n, columns.data<T>() + i * matrices_.distance, n, workspace,
                                pivots + i * n, status(i)),
               "getrf");
      });
    }
    cuda_kernels::launch_permutation(stream, dtype_, matrices_.count, n, pivots, permutation.data<std::int64_t>(),
                                     sign.raw_data());
    cuda_kernels::launch_spread_nan(stream, dtype_, batch_of(input), input.raw_data(), columns.raw_data());
  });
  backend_.copy(columns.transpose(), factors);
}

void CudaBackend::factorize(Factorization kind, const Array& input, const Array& output) {
  const MatrixWork work(*this, name_of(kind), factorizable(name_of(kind), input));
  switch (kind) {
    case Factorization::cholesky: return work.cholesky(input, output);
    case Factorization::qr: return work.qr(input, output);
    case Factorization::svd: return work.svd(input, true, output);
    case Factorization::singular_values: return work.svd(input, false, output);
    case Factorization::eigh: return work.eigh(input, true, output);
    case Factorization::eigenvalues: return work.eigh(input, false, output);
  }
}

void CudaBackend::lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) {
  MatrixWork(*this, "lu", factorizable("lu", input)).lu(input, factors, permutation, sign);
}

// T X = B is X^T T^T = B^T, and the transposed are what cuBLAS sees: T stands on the right.
void CudaBackend::solve_triangular(const TriangularSystem& system, const Array& matrix, const Array& right,
                                   const Array& output) {
  const int n = length_of(system.operation, matrix, -1);
  const int rows = length_of(system.operation, right, -1);
  const int count = counted(system.operation, matrix, batch_of(matrix).count);
  const MatrixWork work(*this, system.operation, matrix);
  copy(right, output);
  work.run([&]<class T>(cudaStream_t stream, const SolverHandles::Held& held, std::type_identity<T>) {
    if (!system.triangle.unit) work.report_diagonal(stream, Kind::singular, matrix);
    const auto uplo = system.triangle.upper ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    const auto diagonal = system.triangle.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    const T one = 1;
    if (count == 1) {
      work.blas(SolverFunctions<T>::trsm(held.blas, CUBLAS_SIDE_RIGHT, uplo, CUBLAS_OP_N, diagonal, rows, n, &one,
                                         matrix.data<T>(), n, output.data<T>(), rows),
                "trsm");
      return;
    }
    Storage first = work.pointer_memory();
    Storage second = work.pointer_memory();
    work.blas(
        SolverFunctions<T>::trsm_batched(held.blas, CUBLAS_SIDE_RIGHT, uplo, CUBLAS_OP_N, diagonal, rows, n, &one,
                                         reinterpret_cast<T**>(work.pointers(stream, first, matrix)), n,
                                         reinterpret_cast<T**>(work.pointers(stream, second, output)), rows, count),
        "trsmBatched");
  });
}

}  // namespace tutti
