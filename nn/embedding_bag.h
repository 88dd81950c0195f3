// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

#include <cstdint>
#include <optional>

namespace tutti {

/// Reduction of the rows of a bag to one row.
enum class BagMode : std::uint8_t { sum, mean, max };

struct EmbeddingBagCall {
  BagMode mode = BagMode::mean;
  Tensor per_sample_weights = {};  ///< factor of each row, in the indices' shape; for sums alone
  std::optional<std::int64_t> padding_index =
      {};  ///< rows that count nothing, also in the mean; negative: from the back
};

/// embedding(table, indices), and each bag's rows joined to one: table [rows, columns] floating -> [bags, columns].
/// Indices are integers of any type, [bags, length], a bag in a row; or [n], where bag i is of the indices from
/// offsets[i], integers [bags], to the next bag's, the last one's to the end. Offsets ascend from 0. A bag of nothing
/// is zeros. A table with sparse gradients has the rows that were read. bf16 and f16 are added in f32. Of equal largest
/// elements the first has the gradient; of different rows between offsets they share it.
///
/// ShapeError and DTypeError for what does not fit, Error for weights of another mode, ShapeError for a padding index
/// out of range; an index out of range and offsets that do not ascend from 0 throw ShapeError when the kernel runs.
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const EmbeddingBagCall& = {});
Tensor embedding_bag(const Tensor& table, const Tensor& indices, const Tensor& offsets, const EmbeddingBagCall& = {});

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  std::optional<std::int64_t> padding_index = {};  ///< its row starts as zeros
  bool sparse = false;  ///< the gradient holds the rows that were read, and never takes the table's memory
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// A table of vectors, of which each bag of indices gives one: `embedding_bag` with a table that is learned. Starts
/// normally distributed, as in PyTorch.
class EmbeddingBag
    : public LayerOf<Tensor(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights)> {
 public:
  /// ShapeError unless both sizes are positive and the padding index is one of the rows, DTypeError unless the type is
  /// floating.
  EmbeddingBag(std::int64_t rows, std::int64_t columns, Generator&, const EmbeddingBagOptions& = {});

  using LayerOf::forward;
  using LayerOf::operator();
  Tensor forward(const Tensor& indices, const Tensor& offsets = {}) const { return forward(indices, offsets, {}); }
  Tensor operator()(const Tensor& indices, const Tensor& offsets = {}) const { return forward(indices, offsets); }
  /// Offsets are those of indices [n]; undefined for indices [bags, length]. Errors are those of `embedding_bag`.
  Tensor compute(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights) const override;
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [rows, columns]

 private:
  BagMode mode_;
  std::optional<std::int64_t> padding_index_;
};

}  // namespace tutti
