// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of cuSOLVER and cuBLAS of one type of elements: SolverFunctions<float>::potrf is cusolverDnSpotrf.

#include <tutti/backend/cuda/runtime/loaded_library.h>

#include <cublas_v2.h>
#include <cusolverDn.h>

namespace tutti {

/// cuSOLVER, which is loaded with the first call of a function of it.
LoadedLibrary& cusolver_library();

TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnCreate)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDestroy)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSetStream)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSpotrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDpotrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSpotrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDpotrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSpotrfBatched)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDpotrfBatched)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgetrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgetrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgetrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgetrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgeqrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgeqrf_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgeqrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgeqrf)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSorgqr_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDorgqr_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSorgqr)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDorgqr)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgesvd_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgesvd_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSgesvd)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDgesvd)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSsyevd_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDsyevd_bufferSize)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnSsyevd)
TUTTI_LOADED_FUNCTION(cusolver_library, cusolverDnDsyevd)

template <class T> struct SolverFunctions;

#define TUTTI_SOLVER_FUNCTIONS(T, X)                                    \
  template <> struct SolverFunctions<T> {                               \
    static constexpr auto potrf_size = cusolverDn##X##potrf_bufferSize; \
    static constexpr auto potrf = cusolverDn##X##potrf;                 \
    static constexpr auto potrf_batched = cusolverDn##X##potrfBatched;  \
    static constexpr auto getrf_size = cusolverDn##X##getrf_bufferSize; \
    static constexpr auto getrf = cusolverDn##X##getrf;                 \
    static constexpr auto getrf_batched = cublas##X##getrfBatched;      \
    static constexpr auto geqrf_size = cusolverDn##X##geqrf_bufferSize; \
    static constexpr auto geqrf = cusolverDn##X##geqrf;                 \
    static constexpr auto orgqr_size = cusolverDn##X##orgqr_bufferSize; \
    static constexpr auto orgqr = cusolverDn##X##orgqr;                 \
    static constexpr auto gesvd_size = cusolverDn##X##gesvd_bufferSize; \
    static constexpr auto gesvd = cusolverDn##X##gesvd;                 \
    static constexpr auto syevd_size = cusolverDn##X##syevd_bufferSize; \
    static constexpr auto syevd = cusolverDn##X##syevd;                 \
    static constexpr auto trsm = cublas##X##trsm;                       \
    static constexpr auto trsm_batched = cublas##X##trsmBatched;        \
  };
TUTTI_SOLVER_FUNCTIONS(float, S)
TUTTI_SOLVER_FUNCTIONS(double, D)
#undef TUTTI_SOLVER_FUNCTIONS

}  // namespace tutti
