// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/packed_rows.h>
#include <tutti/distributed/engines/network/lines/network_exchange.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// A reduction of sparse gradients' rows as the lines see it: each process gives all of its devices' blocks to each
/// other one, cut into pieces. How many rows there are the announcements say, which go first. Others' blocks are needed
/// all at once, and lie outside of the window; memory for them grows with what comes, not with what was announced. Its
/// results are an empty piece: the process has summed all rows, and nothing can fail there any more.
class RowsExchange final : public NetworkExchange {
 public:
  /// The announcement has a slice for each own device that contributes; how many rows it has `fill` adds.
  RowsExchange(std::uint32_t number, Announcement, std::size_t processes, PackedRows, std::size_t piece_bytes);

  const PackedRows& packed() const noexcept { return packed_; }
  /// Packs the own rows, of one contribution for each slice of the announcement; once, before any of them may go.
  /// Throws SyncError naming the rank for more rows than can be, OutOfMemoryError.
  void fill(std::span<const SparseReduction::Contribution>, int rank);
  /// Contributions of the process at the place, once all of its pieces have come.
  std::vector<SparseReduction::Contribution> contributions_of(std::size_t place) const;
  void drop() noexcept;  ///< frees the rows; nothing of them is on its way any more

  std::uint32_t pieces_out() const noexcept override { return pieces_out_.load(std::memory_order_acquire); }
  std::uint32_t pieces_from(std::size_t place) const noexcept override;
  std::size_t bytes_from(std::size_t place, std::size_t piece) const override;
  std::byte* memory_for(std::size_t place, std::size_t piece) override;
  void check(const Announcement&, int rank) const override;
  std::vector<std::span<const std::byte>> slices_for(std::size_t place, std::size_t piece) const override;
  std::span<std::byte> results_of(std::size_t, std::size_t) const override { return {}; }

 private:
  /// Blocks of a process, one behind the other.
  struct Rows {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;  // size of the memory
  };
  std::size_t bytes_of(const Announcement&) const;
  std::uint32_t pieces_of(const Announcement&) const;
  std::size_t length(const Announcement&, std::size_t piece) const;

  PackedRows packed_;
  std::size_t piece_bytes_;
  std::vector<Rows> rows_;                    // indexed by place; who serves the lines has them until all have come
  Rows own_;                                  // rows that this process sends
  std::atomic<std::uint32_t> pieces_out_{1};  // requests behind this one ask before it is filled
};

}  // namespace tutti
