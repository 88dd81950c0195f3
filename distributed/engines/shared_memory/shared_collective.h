// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/collective_cut.h>
#include <tutti/distributed/engines/shared_memory/ring_task.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// A users' collective between processes: each copies its inputs into staging memory, and combines what its own outputs
/// receive from everybody's. So what several processes receive is computed by each of them.
class SharedCollective final : public RingTask {
 public:
  /// `process_of`: place of the process that has a member, by its number. The request has an array for this process's
  /// places at least; those of others are not looked at.
  static std::shared_ptr<SharedCollective> make(std::shared_ptr<SharedFlight>, RingNumber first, CollectiveRequest,
                                                const std::function<std::size_t(std::size_t number)>& process_of);
  std::size_t pieces() const noexcept { return pieces_.size(); }

 private:
  /// Work of a chunk: a range of a piece's elements, from its own beginning.
  struct Work {
    std::size_t index;
    std::int64_t begin;
    std::int64_t count;
  };
  struct Copy {
    const std::byte* from;
    std::size_t to;  // offset in the staging memory
    std::size_t bytes;
  };
  struct Piece {
    std::vector<Copy> copies;           // those of own inputs
    std::vector<CollectivePart> parts;  // results for own outputs; sources are places in staging memory, by process
    std::vector<Work> work;             // chunks of the parts
  };
  static std::vector<Piece> plan(const CollectiveRequest&, const CollectiveCut&, std::size_t own, std::size_t element,
                                 const std::function<std::size_t(std::size_t)>& process_of, std::size_t helpers);
  SharedCollective(std::shared_ptr<SharedFlight>, RingNumber first, CollectiveRequest, DType, std::vector<Piece>,
                   std::span<const Device>, std::span<const std::int64_t> chunks);

  void fill(std::size_t piece, std::int64_t chunk) override;
  void announce(std::size_t piece, Announcement&) noexcept override;
  void look_up(std::size_t piece) override;
  void combine(std::size_t piece, std::int64_t chunk) override;
  void take_back(std::size_t, std::int64_t) override {}
  void drop_chunks() noexcept override;

  Announcement announcement_;
  CollectiveRequest request_;  // its inputs are the processes' staging memory, of the piece that is combined
  std::vector<Array> kept_;    // the inputs
  std::vector<Piece> pieces_;
};

}  // namespace tutti
