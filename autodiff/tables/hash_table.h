// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tables/id_index.h>
#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

struct HashTableOptions {
  std::uint64_t seed = 0;
  double deviation = 0.01;       ///< standard deviation of a row's first values, normal around 0; 0: zeros
  std::int64_t capacity = 1024;  ///< rows to begin with; doubles when they are used up
  IdIndexOptions index = {};     ///< rules which ids get and lose rows
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// State that an optimizer keeps beside each row: arrays of the rows' shape, in the type that the rows are computed in.
struct RowState {
  std::vector<std::string> names;
  double initial = 0.0;
};

/// A growing table of vectors by id, any i64: what is behind HashEmbedding.
///
/// Why replicas agree. Reading changes nothing: an id that has no row reads as what its row would begin with, a
/// function of (seed, id) alone. Gradients are by id, not by row: the indices of `weight`'s sparse gradient are ids,
/// which mean the same on every device, so that GradientSync sums them rightly whatever rows the ids have anywhere, and
/// also ids that several devices meet first in the same step. Rows appear, and are evicted, in `admit` only, which an
/// optimizer calls with the group's gradient: the same on all devices. So replicas that take the same updates stay
/// bitwise equal, row numbers included, without a word between them, and are equal to one device's table as far as sums
/// of gradients are (f32 sums of several devices' parts may round differently than one device's sum). A gradient of an
/// id that was evicted meanwhile reaches that id or nothing, never another one.
///
/// What that costs: counts are of updates, not of occurrences, and a row appears with the first update that reaches it.
///
/// Belongs to one device's replica and one thread at a time; `lookup` to any number, while nobody writes.
class HashTable {
 public:
  using NamedArrays = std::vector<std::pair<std::string, Array>>;

  /// ShapeError unless columns > 0, DTypeError unless the type is floating, Error naming any other option out of range.
  HashTable(std::int64_t columns, const HashTableOptions&);
  /// The same contents on another device or in another type; `weight`, [0, columns], stands for the copy.
  HashTable(const HashTable&, Tensor weight);
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;

  /// The leaf [0, columns] that stands for the table wherever parameters do. It collects a sparse gradient whose
  /// indices are ids. It has no rows of its own: optimizers for plain parameters throw.
  const Tensor& weight() const noexcept { return weight_; }

  enum class Unknown : std::uint8_t { initial, zeros };  ///< value of ids without a row
  /// [ids, columns] on the table's device. Changes nothing.
  Array lookup(std::span<const std::int64_t> ids, Unknown = Unknown::initial) const;

  /// One update: counts the ids of a coalesced gradient of `weight`, evicts, makes rows, and returns the gradient by
  /// row, [capacity, columns], of those ids that have one. The rows' state is prepared. Error if they have the state of
  /// another optimizer, naming both, and those of IdIndex::reach; nothing is changed then.
  SparseGradient admit(const SparseGradient& by_id, const RowState&);
  const Array& rows() const noexcept { return rows_; }  ///< [capacity, columns]; those without an id are 0
  NamedArrays& state() noexcept { return state_; }      ///< an optimizer's, of the rows; empty before the first update
  void drop_state() { state_.clear(); }                 ///< makes way for another optimizer

  /// Becomes what the other one is, in this one's place and type, row numbers and what its index was told included.
  /// ShapeError unless the columns are as many; nothing is changed then.
  void copy_from(const HashTable&);

  void erase(std::span<const std::int64_t> ids);  ///< drops their rows, state and counts; unknown ones are skipped
  const IdIndex& index() const noexcept { return index_; }
  std::int64_t size() const noexcept { return index_.rows(); }  ///< ids that have a row
  std::int64_t capacity() const { return rows_.length(0); }
  std::int64_t columns() const { return rows_.length(1); }
  std::int64_t updates() const noexcept { return index_.updates(); }
  Device device() const { return rows_.device(); }

  /// Everything by id, ids ascending, in arrays of its own on the host: "ids" [n], "counts" [n], "last" [n] (i64),
  /// "rows" [n, columns], "state.<name>" [n, columns], "waiting" [m, 3] (ids without a row, counts, last), "updates".
  NamedArrays save() const;
  /// Becomes what was saved, whatever its own capacity, device, floating type or limit, above which it evicts. Without
  /// "state..." the next optimizer begins anew. DataError naming the array and both values for what is missing, unknown
  /// or does not fit; nothing is changed then.
  void load(const NamedArrays& arrays) { prepare_load(arrays)(); }
  /// The same in two parts: all that can fail, and a function that does the rest, to be called once.
  std::function<void()> prepare_load(const NamedArrays&);

  /// The table that `weight`, a copy of this table's leaf, stands for: a copy of this one, made when it is first asked
  /// for. Any thread, while nobody writes to this table.
  std::shared_ptr<HashTable> copy_for(const Tensor& weight) const;

 private:
  Array initial_values(std::span<const std::int64_t> ids, DType) const;
  void prepare_state(const RowState&);
  void require_state(const RowState&) const;
  void apply(const IdIndex::Changes&, double initial_state);
  void clear_rows(std::span<const std::int64_t> rows);
  void reserve(std::int64_t rows);

  HashTableOptions options_;
  IdIndex index_;
  Tensor weight_;
  Array rows_;
  NamedArrays state_;
  mutable std::mutex copies_mutex_;  // clones of one model may be made on several threads
  mutable std::vector<std::weak_ptr<HashTable>> copies_;
};

using NamedTables = std::vector<std::pair<std::string, std::shared_ptr<HashTable>>>;

}  // namespace tutti
