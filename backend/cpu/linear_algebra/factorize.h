// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/calls/matrix_defect.h>

#include <cstdint>

namespace tutti {

/// Takes one matrix apart, on the calling thread alone; both are row-major and contiguous, and neither is empty.
template <class T>
MatrixDefect factorize(Factorization, std::int64_t rows, std::int64_t columns, const T* matrix, T* parts);

extern template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const float*, float*);
extern template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const double*, double*);

}  // namespace tutti
