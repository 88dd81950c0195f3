// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// The first element at place `place` of an array's leading axes, which are all but the last two.
template <class T> T* matrix_data(const Array& array, std::int64_t place) {
  T* data = array.data<T>();
  for (std::size_t axis = array.rank() - 2; axis-- > 0;) {
    data += place % array.shape()[axis] * array.strides()[axis];
    place /= array.shape()[axis];
  }
  return data;
}

/// The matrix at that place. Of the last two axes one has stride 1, and the other at least the first's length.
template <class T> MatrixView<T> matrix_of(const Array& array, std::int64_t place) {
  const std::size_t row = array.rank() - 2;
  const std::int64_t row_stride = array.strides()[row];
  const std::int64_t column_stride = array.strides()[row + 1];
  const bool by_rows = column_stride == 1 && row_stride >= array.shape()[row + 1];
  return {matrix_data<T>(array, place), by_rows ? row_stride : column_stride, !by_rows};
}

}  // namespace tutti
