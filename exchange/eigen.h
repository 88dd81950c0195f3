// SPDX-License-Identifier: Apache-2.0
#pragma once

// Views and copies for programs that use Eigen themselves: the only header of ours that includes it, and no other
// includes this one.
#include <tutti/backend/error.h>
#include <tutti/exchange/arrays/host_span.h>

#include <Eigen/Core>

namespace tutti {

template <class T> using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T> using MatrixMap =
    Eigen::Map<RowMajorMatrix<T>, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
template <class T> using VectorMap =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>, Eigen::Unaligned, Eigen::InnerStride<>>;

/// The memory of an array on a CPU device as a matrix, any strides, once queued work is done. Valid as long as an array
/// on the storage lives. Throws ShapeError unless the rank is 2, DTypeError unless T is the type.
template <class T> MatrixMap<T> eigen_matrix(const Array& array) {
  wait_for_host_memory(array);
  if (array.rank() != 2) raise_message<ShapeError>("[eigen_matrix] " + to_string(array.shape()) + " has not two axes");
  return {array.data<T>(), array.length(0), array.length(1), {array.strides()[0], array.strides()[1]}};
}

/// The memory of an array as a vector, as eigen_matrix gives a matrix. Throws ShapeError unless the rank is 1,
/// DTypeError unless T is the type.
template <class T> VectorMap<T> eigen_vector(const Array& array) {
  wait_for_host_memory(array);
  if (array.rank() != 1) raise_message<ShapeError>("[eigen_vector] " + to_string(array.shape()) + " has not one axis");
  return {array.data<T>(), array.length(0), Eigen::InnerStride<>(array.strides()[0])};
}

/// A copy of an Eigen expression: [rows, columns], or [size] for what is a vector by its type.
template <class Derived> Array array_from(const Eigen::DenseBase<Derived>& expression, Device device = cpu()) {
  using T = typename Derived::Scalar;
  const RowMajorMatrix<T> values = expression.derived();
  Shape shape{values.rows(), values.cols()};
  if constexpr (Derived::IsVectorAtCompileTime) shape = {values.size()};
  return Array::from(std::span<const T>(values.data(), static_cast<std::size_t>(values.size())), shape, device);
}

}  // namespace tutti
