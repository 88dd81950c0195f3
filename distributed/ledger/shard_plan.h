// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// Assigns each element to the device that updates it: the parameters one after the other in canonical order
/// (ParameterId), each dtype by itself, cut into one contiguous share for each device of the group, over all processes,
/// as even as possible. Cuts inside a parameter lie on multiples of 64 bytes where shares are large enough for that not
/// to matter. Every element has one owner; with more devices than elements some devices own nothing. Immutable, and the
/// same wherever it is made.
class ShardPlan {
 public:
  struct Piece {
    ParameterId parameter;
    MemberIndex owner = 0;   ///< number of the device in its group
    std::int64_t begin = 0;  ///< elements within the flat parameter
    std::int64_t end = 0;
    std::int64_t size() const noexcept { return end - begin; }
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  /// `devices`: those of all processes.
  ShardPlan(std::span<const SyncParameter>, std::size_t devices);

  std::size_t devices() const noexcept { return devices_; }
  /// Pieces in order; owners ascend. None of an empty parameter.
  std::span<const Piece> pieces_of(ParameterId) const;
  std::vector<Piece> owned_by(MemberIndex) const;  ///< one piece at most of each parameter, in canonical order
  std::size_t bytes(MemberIndex owner) const;      ///< size of its share of the parameters

  /// The parameters in the order in which updates complete them when all devices work through their shares side by
  /// side, in runs of one dtype and about `bytes` per device: what one gather moves while the next run is updated.
  std::vector<std::vector<ParameterId>> laps(std::size_t bytes) const;

 private:
  std::int64_t distance(ParameterId) const;

  std::size_t devices_;
  std::vector<DType> dtypes_;           // indexed by ParameterId
  std::vector<std::int64_t> sizes_;     // elements, by ParameterId
  std::vector<Piece> pieces_;           // ordered by parameter, then by owner
  std::vector<std::size_t> first_;      // places in pieces_, by ParameterId, and the end
  std::vector<std::int64_t> progress_;  // how far each piece's owner has come in its share once it is updated
};

}  // namespace tutti
