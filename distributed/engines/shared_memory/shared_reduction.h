// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/shared_memory/ring_task.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tutti {

/// How an all-reduce is cut into pieces, which fit the staging memory whether they are copied there or not: the same
/// for all processes, as it depends on what they agree on alone.
struct PieceCut {
  /// `most_slices`: of any process.
  PieceCut(std::int64_t elements, DType, std::size_t piece_bytes, std::size_t most_slices);

  std::int64_t begin(std::size_t piece) const { return static_cast<std::int64_t>(piece) * length; }
  std::int64_t count(std::size_t piece) const { return std::min(length, elements - begin(piece)); }

  std::int64_t elements;
  std::int64_t length;  ///< elements of all pieces but the last
  std::size_t pieces;   ///< one or more
};

/// An all-reduce between processes: each sums its share of the elements over all slices of all processes, in the tree
/// of their devices, and writes the results to all of them.
class SharedReduction final : public RingTask {
 public:
  /// Takes slices that were checked; there is a number for each.
  static std::shared_ptr<SharedReduction> make(std::shared_ptr<SharedFlight>, RingNumber first, PieceCut,
                                               AllReduceRequest);

 private:
  struct Slice {
    std::byte* data;
    bool staged;  // does not lie in shared memory
  };
  SharedReduction(std::shared_ptr<SharedFlight>, RingNumber first, PieceCut, AllReduceRequest, std::span<const Device>,
                  std::span<const std::int64_t> chunks);

  void fill(std::size_t piece, std::int64_t chunk) override;
  void announce(std::size_t piece, Announcement&) noexcept override;
  void look_up(std::size_t piece) override;
  void combine(std::size_t piece, std::int64_t chunk) override;
  void take_back(std::size_t piece, std::int64_t chunk) override;
  void drop_chunks() noexcept override;

  std::size_t offset(std::size_t piece, std::size_t slice) const;  // offset in the own segment
  std::vector<SummedSlice> all_slices(std::size_t piece) const;
  template <class Copy> void for_staged(std::size_t piece, std::int64_t chunk, Copy);

  PieceCut cut_;
  AllReduceRequest request_;
  std::vector<Slice> slices_;
  std::size_t staged_count_ = 0;
  std::size_t helpers_;
  std::optional<ElementSums> sums_;  // sums of the current piece
};

}  // namespace tutti
