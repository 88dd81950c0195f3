// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

namespace tutti {

struct EmbeddingOptions {
  bool sparse = false;  ///< the gradient holds the rows that were read, and never takes the table's memory
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// A table of vectors looked up by number: integer indices of any shape -> [indices..., columns]. Starts normally
/// distributed, as in PyTorch.
class Embedding : public Layer {
 public:
  /// Throws ShapeError unless both sizes are positive, DTypeError unless the type is floating.
  Embedding(std::int64_t rows, std::int64_t columns, Generator&, const EmbeddingOptions& = {});

  Tensor compute(const Tensor& indices) const override;
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [rows, columns]
};

}  // namespace tutti
