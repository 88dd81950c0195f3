// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <span>

namespace tutti {

/// The rows (entries of the first axis) of an array, kept in host memory, so that any of them can be gathered onto any
/// device. Immutable after construction; `gather` may be called from several threads.
class RowStorage {
 public:
  enum class Memory {
    copied,
    shared,  ///< uses a contiguous array on a CPU device, which nobody may write to; others are copied
  };

  explicit RowStorage(const Array&, Memory = Memory::copied);  ///< waits for its device; ShapeError for a scalar

  std::int64_t rows() const noexcept { return rows_; }
  /// A new array [rows.size(), ...]. Throws ShapeError for a row out of range.
  Array gather(std::span<const std::int64_t> rows, Device) const;

 private:
  Array host_;
  std::int64_t rows_ = 0;
  std::size_t row_bytes_ = 0;
};

}  // namespace tutti
