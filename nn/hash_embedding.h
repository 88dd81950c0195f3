// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tables/hash_table.h>
#include <tutti/nn/layer.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tutti {

struct HashEmbeddingOptions {
  HashTableOptions table = {};
  /// Treatment of unknown ids in evaluation; in training it is always `initial`.
  HashTable::Unknown unknown = HashTable::Unknown::initial;
};

/// An embedding of ids that nobody has counted: any i64 (hashes, negative numbers), of any shape -> [ids..., columns].
/// Its table grows with the ids that updates reach (HashTable, which also says why replicas under a GradientSync
/// agree). Its parameter `weight` collects sparse gradients by id; a SparseSgd, SparseAdagrad or SparseAdamW
/// (optim/sparse_optimizer.h) steps it beside a dense optimizer for all else:
///
///   SparseAdagrad sparse(sparse_parameters(model), 0.05);
///   AdamW dense(dense_parameters(model), 1e-3);
///
/// A copy shares the table, a clone has its own.
class HashEmbedding : public Layer {
 public:
  /// Errors are HashTable's.
  explicit HashEmbedding(std::int64_t columns, const HashEmbeddingOptions& = {});

  /// Ids on any device; waits for them. The table stays as it is. Has no second derivative: AutodiffError.
  Tensor compute(const Tensor& ids) const override;
  void visit(MemberVisitor&) override;

  const std::shared_ptr<HashTable>& table() const;

  Tensor weight;  ///< [0, columns]: the table's

 private:
  mutable std::shared_ptr<HashTable> table_;  // table behind `weight` when last seen; shared by copies
  HashTable::Unknown unknown_;
};

/// The tables of a module and all below it, by dotted name of the HashEmbedding ("users"; of the module itself ""), in
/// order of declaration. One that several share comes once.
NamedTables sparse_parameters(Module&);
/// All other parameters, for dense optimizers.
std::vector<Tensor> dense_parameters(Module&);

/// HashTable::save of all tables: "users.ids", "users.rows", ... What is saved on one device loads on any number.
HashTable::NamedArrays save_tables(Module&);
/// Gives each table its own of the arrays. DataError naming the table that has none or that they do not fit, and arrays
/// of no table; nothing is changed then.
void load_tables(Module&, const HashTable::NamedArrays&);
/// `load_tables` in two parts, as HashTable::prepare_load. A table of which there is nothing, and whose rows' name is
/// in `left_out`, keeps what it has.
std::function<void()> prepare_load_tables(Module&, const HashTable::NamedArrays&,
                                          const std::set<std::string>& left_out = {});

}  // namespace tutti
