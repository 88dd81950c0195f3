// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/engines/network/lines/network_exchange.h>
#include <tutti/distributed/engines/shared_memory/collective_cut.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// A users' collective as the lines see it: each process gets of every other one's inputs what its own outputs need.
class CollectiveExchange final : public NetworkExchange {
 public:
  /// A source of a part that lies with another process: elements of the block that comes from there.
  struct Plan {
    struct Piece {
      std::vector<std::vector<std::span<const std::byte>>> gives;  ///< spans by place of the receiver
      std::vector<std::size_t> gets;                               ///< bytes, by place of the sender
      /// Parts that own outputs receive; a source's member is its array, or that many of arrays and its process's place
      /// on.
      std::vector<CollectivePart> parts;
    };
    std::vector<Piece> pieces;
  };
  using ProcessOf = std::function<std::size_t(std::size_t number)>;

  /// `process_of`: place of the process that has a member, by its number.
  static Plan plan(const CollectiveRequest&, const CollectiveCut&, std::size_t processes, std::size_t own,
                   std::size_t element, const ProcessOf& process_of);

  CollectiveExchange(Sequence, std::uint32_t number, Announcement, std::size_t processes, Plan);

  const std::vector<CollectivePart>& parts(std::size_t piece) const { return plan_.pieces[piece].parts; }

  std::size_t bytes_from(std::size_t place, std::size_t piece) const override {
    return plan_.pieces[piece].gets[place];
  }
  std::vector<std::span<const std::byte>> slices_for(std::size_t place, std::size_t piece) const override {
    return plan_.pieces[piece].gives[place];
  }
  std::span<std::byte> results_of(std::size_t, std::size_t) const override { return {}; }

 private:
  Plan plan_;
};

}  // namespace tutti
