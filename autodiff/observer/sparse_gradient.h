// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <cstdint>
#include <span>

namespace tutti {

/// The gradient of a table [rows, columns...] that reads few of its rows: rows[i] is added at indices[i], the rest is
/// 0. What it holds is never written again: copies share it.
struct SparseGradient {
  Array indices;           ///< i64 [k], in [0, shape[0]); contiguous
  Array rows;              ///< [k, columns...] of the table's dtype; contiguous
  Shape shape;             ///< the table's
  bool coalesced = false;  ///< known to be: indices ascending, each once

  bool defined() const noexcept { return indices.defined(); }
  std::int64_t count() const noexcept { return indices.size(); }  ///< k, which may be 0
  Array dense() const;  ///< the whole table's gradient, which takes its memory: for tests and small tables
};

/// The sum of the parts, of one shape, dtype and device: indices ascending, each once. A row's summands are added in
/// the order of the parts and, within one, of the indices: bitwise repeatable. Waits for the device's compute stream,
/// but for a single part that is coalesced. Throws Error if there are no parts.
SparseGradient coalesce(std::span<const SparseGradient> parts);

/// Elements in one row of a table.
std::int64_t columns_of(const Shape& table);

/// i64 [k] as [k, columns] without memory of its own: what gather and scatter_add take for whole rows.
Array index_of_rows(const Array& indices, std::int64_t columns);

}  // namespace tutti
