// SPDX-License-Identifier: Apache-2.0
// The functions of cuSOLVER, and of cuBLAS what is needed beside them, in place of NVIDIA's libraries. Nothing is
// computed: calls tell their sizes, and what they read and write is watched.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

constexpr int kWorkspace = 64;  // elements that each function asks for

std::map<const void*, cudaStream_t> streams;  // of handles, under the machine's mutex

/// `Status` is cuSOLVER's or cuBLAS's: both have 0 for success, and errors that begin with these.
template <class Status, class F> Status library_call(const char* name, std::string text, const F& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return static_cast<Status>(1);
  Lock lock(machine->mutex);
  if (machine->enter(name, std::move(text), false) != cudaSuccess) return static_cast<Status>(6);
  return body(*machine, lock) ? static_cast<Status>(0) : static_cast<Status>(7);
}

template <class Status, class Handle> Status make(const char* call, const char* what, Handle* handle) {
  return library_call<Status>(call, {}, [&](CudaMachine& machine, Lock&) {
    *handle = reinterpret_cast<Handle>(machine.make_handle(what));
    return true;
  });
}

template <class Status> Status destroy(const char* call, const void* handle) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return static_cast<Status>(1);
  const Lock lock(machine->mutex);
  machine->destroy_handle(call, handle);
  if (const auto found = streams.find(handle); found != streams.end()) {
    if (const SimulatedStream* stream = machine->stream(call, found->second)) machine->check_device(call, *stream);
    streams.erase(found);
  }
  return machine->enter(call, {}, true) == cudaSuccess ? static_cast<Status>(0) : static_cast<Status>(7);
}

template <class Status> Status set_stream(const char* call, const void* handle, cudaStream_t stream) {
  return library_call<Status>(call, {}, [&](CudaMachine& machine, Lock&) {
    streams[handle] = stream;
    return machine.check_handle(call, handle);
  });
}

template <class Status>
Status queue(const char* name, const void* handle, std::string text, const std::vector<MemoryUse>& uses) {
  return library_call<Status>(name, std::move(text), [&](CudaMachine& machine, Lock& lock) {
    if (!machine.check_handle(name, handle)) return false;
    SimulatedStream* stream = machine.stream(name, streams[handle]);
    if (stream == nullptr) return false;
    machine.check_device(name, *stream);
    machine.enqueue(lock, *stream, {name, [] {}, {}, {}}, uses);
    return true;
  });
}

cusolverStatus_t size_of_workspace(const char* name, const void* handle, int* size) {
  return library_call<cusolverStatus_t>(name, {}, [&](CudaMachine& machine, Lock&) {
    *size = machine.options.workspace_fits ? kWorkspace : -1;
    return machine.check_handle(name, handle);
  });
}

template <class T> MemoryUse elements(const T* data, std::int64_t count, bool write = false) {
  return {data, static_cast<std::size_t>(count) * sizeof(T), write};
}
/// A column-major matrix.
template <class T>
MemoryUse matrix(const T* data, std::int64_t rows, std::int64_t columns, std::int64_t leading, bool write) {
  return elements(data, leading * (columns - 1) + rows, write);
}
const char* name_of(cublasFillMode_t fill) { return fill == CUBLAS_FILL_MODE_UPPER ? "upper" : "lower"; }
std::string triangular(cublasSideMode_t side, cublasFillMode_t fill, cublasDiagType_t diagonal, int m, int n) {
  return fmt::format("{} {}{}, {} x {}", side == CUBLAS_SIDE_LEFT ? "left" : "right", name_of(fill),
                     diagonal == CUBLAS_DIAG_UNIT ? " unit" : "", m, n);
}

}  // namespace

extern "C" {

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  return make<cusolverStatus_t>("cusolverDnCreate", "a handle of cuSOLVER", handle);
}
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  return destroy<cusolverStatus_t>("cusolverDnDestroy", handle);
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  return set_stream<cusolverStatus_t>("cusolverDnSetStream", handle, stream);
}
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return make<cublasStatus_t>("cublasCreate", "a handle of cuBLAS", handle);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return destroy<cublasStatus_t>("cublasDestroy", handle); }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return set_stream<cublasStatus_t>("cublasSetStream", handle, stream);
}

#define TUTTI_RECORDED_SOLVERS(T, X)                                                                                   \
  cusolverStatus_t cusolverDn##X##potrf_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t, int, T*, int,          \
                                                   int* size) {                                                        \
    return size_of_workspace("potrf_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##potrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T* a, int lda,        \
                                        T* work, int size, int* info) {                                                \
    return queue<cusolverStatus_t>("potrf", handle, fmt::format("{} {}", name_of(fill), n),                            \
                                   {matrix(a, n, n, lda, true), elements(work, size, true), elements(info, 1, true)}); \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T* a[], int,   \
                                               int* info, int count) {                                                 \
    return queue<cusolverStatus_t>("potrfBatched", handle, fmt::format("{} {}, {} times", name_of(fill), n, count),    \
                                   {elements(a, count), elements(info, count, true)});                                 \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##getrf_bufferSize(cusolverDnHandle_t handle, int, int, T*, int, int* size) {          \
    return size_of_workspace("getrf_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##getrf(cusolverDnHandle_t handle, int m, int n, T* a, int lda, T* work, int* pivots,  \
                                        int* info) {                                                                   \
    return queue<cusolverStatus_t>("getrf", handle, fmt::format("{} x {}", m, n),                                      \
                                   {matrix(a, m, n, lda, true), elements(work, kWorkspace, true),                      \
                                    elements(pivots, std::min(m, n), true), elements(info, 1, true)});                 \
  }                                                                                                                    \
  cublasStatus_t cublas##X##getrfBatched(cublasHandle_t handle, int n, T* const a[], int, int* pivots, int* info,      \
                                         int count) {                                                                  \
    return queue<cublasStatus_t>(                                                                                      \
        "getrfBatched", handle, fmt::format("{}, {} times", n, count),                                                 \
        {elements(a, count), elements(pivots, std::int64_t{n} * count, true), elements(info, count, true)});           \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##geqrf_bufferSize(cusolverDnHandle_t handle, int, int, T*, int, int* size) {          \
    return size_of_workspace("geqrf_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##geqrf(cusolverDnHandle_t handle, int m, int n, T* a, int lda, T* scales, T* work,    \
                                        int size, int* info) {                                                         \
    return queue<cusolverStatus_t>("geqrf", handle, fmt::format("{} x {}", m, n),                                      \
                                   {matrix(a, m, n, lda, true), elements(scales, std::min(m, n), true),                \
                                    elements(work, size, true), elements(info, 1, true)});                             \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##orgqr_bufferSize(cusolverDnHandle_t handle, int, int, int, const T*, int, const T*,  \
                                                   int* size) {                                                        \
    return size_of_workspace("orgqr_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##orgqr(cusolverDnHandle_t handle, int m, int n, int k, T* a, int lda,                 \
                                        const T* scales, T* work, int size, int* info) {                               \
    return queue<cusolverStatus_t>(                                                                                    \
        "orgqr", handle, fmt::format("{} x {}, {}", m, n, k),                                                          \
        {matrix(a, m, n, lda, true), elements(scales, k), elements(work, size, true), elements(info, 1, true)});       \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##gesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int* size) {               \
    if (m < n) return CUSOLVER_STATUS_INVALID_VALUE;                                                                   \
    return size_of_workspace("gesvd_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##gesvd(cusolverDnHandle_t handle, signed char u_job, signed char v_job, int m, int n, \
                                        T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work, int size, T*,      \
                                        int* info) {                                                                   \
    if (m < n || u_job != v_job) return CUSOLVER_STATUS_INVALID_VALUE;                                                 \
    std::vector<MemoryUse> uses{matrix(a, m, n, lda, true), elements(s, n, true), elements(work, size, true),          \
                                elements(info, 1, true)};                                                              \
    if (u_job == 'S') uses.insert(uses.end(), {matrix(u, m, n, ldu, true), matrix(v, n, n, ldv, true)});               \
    return queue<cusolverStatus_t>("gesvd", handle, fmt::format("{} {} x {}", static_cast<char>(u_job), m, n), uses);  \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##syevd_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t, cublasFillMode_t,     \
                                                   int, const T*, int, const T*, int* size) {                          \
    return size_of_workspace("syevd_bufferSize", handle, size);                                                        \
  }                                                                                                                    \
  cusolverStatus_t cusolverDn##X##syevd(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill,      \
                                        int n, T* a, int lda, T* values, T* work, int size, int* info) {               \
    const char* const wanted = mode == CUSOLVER_EIG_MODE_VECTOR ? "vectors" : "values";                                \
    return queue<cusolverStatus_t>(                                                                                    \
        "syevd", handle, fmt::format("{} {} {}", wanted, name_of(fill), n),                                            \
        {matrix(a, n, n, lda, true), elements(values, n, true), elements(work, size, true), elements(info, 1, true)}); \
  }                                                                                                                    \
  cublasStatus_t cublas##X##trsm_v2(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,               \
                                    cublasOperation_t, cublasDiagType_t diagonal, int m, int n, const T*, const T* a,  \
                                    int lda, T* b, int ldb) {                                                          \
    const int order = side == CUBLAS_SIDE_LEFT ? m : n;                                                                \
    return queue<cublasStatus_t>("trsm", handle, triangular(side, fill, diagonal, m, n),                               \
                                 {matrix(a, order, order, lda, false), matrix(b, m, n, ldb, true)});                   \
  }                                                                                                                    \
  cublasStatus_t cublas##X##trsmBatched(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,           \
                                        cublasOperation_t, cublasDiagType_t diagonal, int m, int n, const T*,          \
                                        const T* const a[], int, T* const b[], int, int count) {                       \
    return queue<cublasStatus_t>("trsmBatched", handle, triangular(side, fill, diagonal, m, n),                        \
                                 {elements(a, count), elements(b, count)});                                            \
  }
TUTTI_RECORDED_SOLVERS(float, S)
TUTTI_RECORDED_SOLVERS(double, D)
#undef TUTTI_RECORDED_SOLVERS

}  // extern "C"

}  // namespace tutti::testing
