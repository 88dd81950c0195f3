// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/packed_rows.h>
#include <tutti/distributed/engines/shared_memory/ring_task.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// A reduction of a sparse gradient between processes: each copies its devices' rows into shared memory, and sums those
/// of all for its own devices. It is one piece, however many rows there are: where they do not fit the slot's staging
/// memory they lie among the shared arrays.
class SharedRows final : public RingTask {
 public:
  /// `members`: of the group, at their numbers. The request has the contributions of this process's devices.
  static std::shared_ptr<SharedRows> make(std::shared_ptr<SharedFlight>, RingNumber, SparseReduction,
                                          std::span<const Member> members);

 private:
  /// Block of one contribution.
  struct Place {
    std::size_t offset;  // bytes from the beginning of all
    std::int64_t count;
  };
  SharedRows(std::shared_ptr<SharedFlight>, RingNumber, SparseReduction, std::span<const Member> members);

  void fill(std::size_t, std::int64_t) override;
  void announce(std::size_t, Announcement&) noexcept override;
  void look_up(std::size_t) override;
  void combine(std::size_t, std::int64_t) override;
  void take_back(std::size_t, std::int64_t) override;
  void drop_chunks() noexcept override;

  SparseReduction request_;
  PackedRows packed_;
  std::vector<Place> places_;          // one for each contribution
  std::size_t begin_ = 0;              // offset of all in the own segment
  std::shared_ptr<std::byte> memory_;  // null: they lie in the staging memory
};

}  // namespace tutti
