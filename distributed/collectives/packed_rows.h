// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/sparse_reduction.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Form of sparse gradients' rows that go from process to process: those of a device in one block of memory, the
/// indices, and behind them the rows, each of the two up to a multiple of kAlignment. What others say of theirs is
/// checked here. Constant.
class PackedRows {
 public:
  static constexpr std::size_t kAlignment = 64;  ///< bytes

  /// `engine`: its name, in errors. `members`: of the group, at their numbers.
  PackedRows(std::string engine, SyncParameter, std::span<const Member> members);

  /// Number of a device's rows.
  static std::int64_t count_of(const SparseParts&);
  /// Bytes of a device's block, for a count that was checked.
  std::size_t bytes_of(std::int64_t count) const { return bytes_of_indices(count) + bytes_of_rows(count); }
  /// Writes a device's block, bytes_of(count_of(parts)); what nothing belongs to is 0.
  void pack(const SparseParts& parts, std::byte* to) const;

  /// SyncError naming the process of this rank if it has no device of that number, or says more rows than a block may
  /// have (1 TiB of them).
  void check(int rank, std::size_t number, std::uint64_t count) const;
  /// Contribution of a device whose block that is, for a number and a count that were checked. The block stays as long
  /// as it.
  SparseReduction::Contribution contribution(std::size_t number, std::int64_t count, std::byte* block) const;
  /// Brings contributions into the order of their numbers; SyncError naming the device if one is there twice.
  void order(std::vector<SparseReduction::Contribution>&) const;

 private:
  std::size_t bytes_of_indices(std::int64_t count) const;
  std::size_t bytes_of_rows(std::int64_t count) const;

  std::string engine_;
  SyncParameter parameter_;
  std::vector<Member> members_;
};

}  // namespace tutti
