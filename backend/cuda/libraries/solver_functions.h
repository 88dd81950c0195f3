// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of cuSOLVER and cuBLAS of one type of elements: SolverFunctions<float>::potrf is cusolverDnSpotrf.

#include <cublas_v2.h>
#include <cusolverDn.h>

namespace tutti {

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
