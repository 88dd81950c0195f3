// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/embedding_bag.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

#include <limits>

namespace tutti {
namespace {

std::int64_t padding_row(std::string_view name, std::int64_t given, std::int64_t rows) {
  if (given < -rows || given >= rows)
    raise<ShapeError>("[{}] the padding index {} is out of range for {} rows", name, given, rows);
  return given < 0 ? given + rows : given;
}

void check(const Tensor& table, const Tensor& indices, const Tensor& offsets, const EmbeddingBagCall& call) {
  if (table.rank() != 2)
    raise<ShapeError>("[embedding_bag] needs a table [rows, columns], got {}", to_string(table.shape()));
  if (!is_floating(table.dtype()))
    raise<DTypeError>("[embedding_bag] needs a table of floating type, got {}", to_string(table.dtype()));
  if (!offsets.defined() && indices.rank() != 2)
    raise<ShapeError>("[embedding_bag] needs indices [bags, length], or [n] with offsets, got {}",
                      to_string(indices.shape()));
  if (offsets.defined() && (indices.rank() != 1 || offsets.rank() != 1))
    raise<ShapeError>("[embedding_bag] needs indices [n] with offsets [bags], got {} and {}",
                      to_string(indices.shape()), to_string(offsets.shape()));
  if (offsets.defined() && offsets.size() == 0 && indices.size() > 0)
    raise<ShapeError>("[embedding_bag] {} indices are in no bag: there are no offsets", indices.size());
  if (offsets.defined() && !is_integral(offsets.dtype()))
    raise<DTypeError>("[embedding_bag] offsets are {}: they must be integers", to_string(offsets.dtype()));
  const Tensor& weights = call.per_sample_weights;
  if (!weights.defined()) return;
  if (call.mode != BagMode::sum) raise("[embedding_bag] weights of samples are for sums: neither for means nor maxima");
  if (weights.shape() != indices.shape())
    raise<ShapeError>("[embedding_bag] weights {} of samples do not have the shape of indices {}",
                      to_string(weights.shape()), to_string(indices.shape()));
  if (!is_floating(weights.dtype()))
    raise<DTypeError>("[embedding_bag] weights of samples are {}, not floating", to_string(weights.dtype()));
}

/// How rows are joined: those of one axis, or those between offsets.
class Bags {
 public:
  Bags(std::int64_t bags, std::int64_t count, const Tensor& offsets) : bags_(bags) {
    if (offsets.defined()) bag_of_ = numbers(cast(offsets, DType::i64), count);
  }

  /// [..., columns] -> [bags, columns].
  Tensor total(const Tensor& x) const {
    if (!bag_of_.defined()) return sum(x, {1});
    const IndexMeaning meaning = bag_numbers();
    const IndexScope scope(meaning);
    return scatter_add_places({bags_, x.length(1)}, x, 0, broadcast_to(bag_of_, x.shape()));
  }
  /// The same of the largest; of nothing any number.
  Tensor largest(const Tensor& x) const {
    if (!bag_of_.defined()) return x.length(1) > 0 ? max(x, {1}) : sum(x, {1});
    const IndexMeaning meaning = bag_numbers();
    const IndexScope scope(meaning);
    const Tensor least = full({bags_, x.length(1)}, -std::numeric_limits<double>::infinity(),
                              {.dtype = x.dtype(), .device = x.device()});
    return scatter_places(least, 0, broadcast_to(bag_of_, x.shape()), x, Scatter::max);
  }

 private:
  static IndexMeaning bag_numbers() {
    return {.operation = "embedding_bag", .index = "bag", .range = "bags: the first offset must be 0"};
  }

  /// The bag of each of `count` indices, [count, 1]. Found on the device, as what is wrong with offsets.
  static Tensor numbers(const Tensor& given, std::int64_t count) {
    const TensorOptions alike{.dtype = DType::i64, .device = given.device()};
    const Tensor places = arange(0, count + 1, 1, alike);
    const Tensor begins = looked_up("offset", "places", places, given);
    const std::int64_t bags = given.length(0);
    if (bags > 1) {
      const Tensor lengths = slice(begins, 0, 1, bags) - slice(begins, 0, 0, bags - 1);
      looked_up("a bag's length", "lengths: offsets must ascend", places, lengths);
    }
    return expand_dims(searchsorted(begins, slice(places, 0, 0, count), true) - 1, 1);
  }

  /// The index itself, after a look whether it is one of the places.
  static Tensor looked_up(std::string_view what, std::string_view range, const Tensor& places, const Tensor& index) {
    const IndexMeaning meaning{.operation = "embedding_bag", .index = what, .range = range, .shape = index.shape()};
    const IndexScope scope(meaning);
    return embedding(places, index);
  }

  std::int64_t bags_;
  Tensor bag_of_;
};

Tensor rows_of(const Tensor& table, const Tensor& indices) {
  const IndexMeaning meaning{.operation = "embedding_bag", .index = "id", .range = "rows", .shape = indices.shape()};
  const IndexScope ids(meaning);
  return widened(embedding(table, indices));
}

Tensor joined(const Tensor& table, const Tensor& indices, const Tensor& offsets, const EmbeddingBagCall& call) {
  check(table, indices, offsets, call);
  const Bags bags(offsets.defined() ? offsets.length(0) : indices.length(0), indices.size(), offsets);
  Tensor rows = rows_of(table, indices);
  Tensor weights = call.per_sample_weights;
  Tensor kept = full(indices.shape(), true, {.device = indices.device()});
  if (call.padding_index) {
    kept = cast(indices, DType::i64) != padding_row("embedding_bag", *call.padding_index, table.length(0));
    const double nothing = call.mode == BagMode::max ? -std::numeric_limits<double>::infinity() : 0.0;
    rows = where(expand_dims(kept, -1), rows, nothing);
    if (weights.defined()) weights = where(kept, weights, 0.0);
  }
  if (weights.defined()) rows = rows * expand_dims(widened(weights), -1);
  if (call.mode == BagMode::sum) return bags.total(rows);
  const Tensor count = bags.total(cast(expand_dims(kept, -1), DType::i64));
  if (call.mode == BagMode::mean) return bags.total(rows) / maximum(count, 1);
  return where(count > 0, bags.largest(rows), 0.0);
}

}  // namespace

Tensor embedding_bag(const Tensor& table, const Tensor& indices, const Tensor& offsets, const EmbeddingBagCall& call) {
  const OperationScope scope("embedding_bag", table, indices, offsets, call.per_sample_weights);
  return cast(joined(table, indices, offsets, call), table.dtype());
}

Tensor embedding_bag(const Tensor& table, const Tensor& indices, const EmbeddingBagCall& call) {
  return embedding_bag(table, indices, Tensor(), call);
}

EmbeddingBag::EmbeddingBag(std::int64_t rows, std::int64_t columns, Generator& generator,
                           const EmbeddingBagOptions& options)
    : mode_(options.mode), padding_index_(options.padding_index) {
  if (rows <= 0 || columns <= 0)
    raise<ShapeError>("[EmbeddingBag] sizes must be positive, got rows {} and columns {}", rows, columns);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[EmbeddingBag] needs a floating type, got {}", to_string(options.dtype));
  weight = Tensor(Array::empty({rows, columns}, options.dtype, options.device), true);
  weight.set_sparse_grad(options.sparse);
  fill_normal(weight, generator, 0.0, 1.0);
  if (!padding_index_) return;
  const std::int64_t padding = padding_row("EmbeddingBag", *padding_index_, rows);
  weight.array().slice(0, padding, padding + 1).fill(0);
}

Tensor EmbeddingBag::compute(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights) const {
  return embedding_bag(weight, indices, offsets,
                       {.mode = mode_, .per_sample_weights = per_sample_weights, .padding_index = padding_index_});
}

void EmbeddingBag::visit(MemberVisitor& visitor) { visitor.parameter("weight", weight); }

}  // namespace tutti
