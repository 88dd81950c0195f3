// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/embedding.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

namespace tutti {

Embedding::Embedding(std::int64_t rows, std::int64_t columns, Generator& generator, const EmbeddingOptions& options) {
  if (rows <= 0 || columns <= 0)
    raise<ShapeError>("[Embedding] sizes must be positive, got rows {} and columns {}", rows, columns);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[Embedding] needs a floating type, got {}", to_string(options.dtype));
  weight = Tensor(Array::empty({rows, columns}, options.dtype, options.device), true);
  weight.set_sparse_grad(options.sparse);
  fill_normal(weight, generator, 0.0, 1.0);
}

Tensor Embedding::compute(const Tensor& indices) const { return embedding(weight, indices); }

void Embedding::visit(MemberVisitor& visitor) { visitor.parameter("weight", weight); }

}  // namespace tutti
