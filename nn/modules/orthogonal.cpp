// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/initialize.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr std::int64_t kBlock = 32;

/// Gram and Schmidt's method on the rows of a small block, in place.
void orthonormalise(std::vector<double>& rows, std::size_t count, std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) {
    double* row = rows.data() + i * length;
    for (std::size_t j = 0; j < i; ++j) {
      const double* before = rows.data() + j * length;
      double product = 0;
      for (std::size_t k = 0; k < length; ++k) product += row[k] * before[k];
      for (std::size_t k = 0; k < length; ++k) row[k] -= product * before[k];
    }
    double square = 0;
    for (std::size_t k = 0; k < length; ++k) square += row[k] * row[k];
    const double factor = 1 / std::sqrt(square);
    for (std::size_t k = 0; k < length; ++k) row[k] *= factor;
  }
}

/// count <= length rows in random directions, each as likely: normal numbers, made orthonormal block by block. Twice is
/// enough for full precision: Giraud, Langou, Rozloznik, "The Loss of Orthogonality in the Gram-Schmidt
/// Orthogonalization Process" (2005).
Array orthonormal_rows(std::int64_t count, std::int64_t length, Generator& generator) {
  Array all = generator.normal({count, length}, DType::f64, cpu(0));
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, count);
    Array block = all.slice(0, begin, end);
    const Array before = all.slice(0, 0, begin);
    for (int pass = 0; pass < 2; ++pass) {
      if (begin > 0)
        block.copy_from(apply(elementwise::Subtract{}, block, matmul(matmul(block, before.transpose()), before)));
      std::vector<double> rows = block.to_vector<double>();
      orthonormalise(rows, static_cast<std::size_t>(end - begin), static_cast<std::size_t>(length));
      block.copy_from(Array::from(rows, block.shape(), cpu(0)));
    }
  }
  return all;
}

}  // namespace

void orthogonal(const Tensor& weight, Generator& generator, double gain) {
  const Shape& shape = weight.shape();
  if (shape.size() < 2) raise<ShapeError>("[orthogonal] needs a weight of rank 2 or more, got {}", to_string(shape));
  if (!is_floating(weight.dtype()))
    raise<DTypeError>("[orthogonal] needs a floating type, got {}", to_string(weight.dtype()));
  if (weight.size() == 0) return;
  const std::int64_t rows = shape[0];
  const std::int64_t columns = weight.size() / rows;
  const Array drawn = orthonormal_rows(std::min(rows, columns), std::max(rows, columns), generator);
  const Array matrix = apply(elementwise::Multiply{}, rows <= columns ? drawn : drawn.transpose(),
                             Array::full({}, gain, DType::f64, cpu(0)));
  Array values = weight.array();
  values.copy_from(matrix.reshape(shape).cast(weight.dtype()));
}

}  // namespace tutti
