// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/engines/shared_memory/segments/announcement.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// One request as the lines see it: what this process sends to the others, where what they send belongs, and how far
/// all are. Its pieces go in order.
class NetworkExchange {
 public:
  /// How far this process and another one are with each other.
  struct Peer {
    std::atomic<bool> announced{false};         ///< `theirs` is there
    std::atomic<std::uint32_t> slices_in{0};    ///< pieces that came
    std::atomic<std::uint32_t> slices_out{0};   ///< pieces that went
    std::atomic<std::uint32_t> results_in{0};   ///< pieces that came
    std::atomic<std::uint32_t> results_out{0};  ///< pieces that went
    Announcement theirs;
    std::vector<std::unique_ptr<std::byte[]>> blocks;  ///< memory of what came, by piece, until it is used
  };

  NetworkExchange(Sequence, std::uint32_t number, Announcement, std::size_t processes, std::uint32_t pieces,
                  bool has_results);
  virtual ~NetworkExchange() = default;
  NetworkExchange(const NetworkExchange&) = delete;
  NetworkExchange& operator=(const NetworkExchange&) = delete;

  Sequence sequence() const noexcept { return sequence_; }
  std::uint32_t number() const noexcept { return number_; }
  /// Number of the pieces that this process sends to each other one, at least one; where only the fill stage finds it
  /// out, one until then.
  virtual std::uint32_t pieces_out() const noexcept { return pieces_; }
  /// Number of the pieces that the process at the place sends to this one, at least one; where it tells that in its
  /// announcement, more than can come until then.
  virtual std::uint32_t pieces_from(std::size_t) const noexcept { return pieces_; }
  /// Number of the pieces of results that each process sends to each other one.
  std::uint32_t results() const noexcept { return has_results_ ? pieces_ : 0; }
  const Announcement& announcement() const noexcept { return announcement_; }
  Peer& peer(std::size_t place) { return peers_[place]; }
  const Peer& peer(std::size_t place) const { return peers_[place]; }

  /// Bytes that the process at the place gives to this one for a piece, once it has announced itself; at most a
  /// piece's.
  virtual std::size_t bytes_from(std::size_t place, std::size_t piece) const = 0;
  /// Memory for a piece from there, of which those before have come; null: a block of the window. Called by who serves
  /// the lines.
  virtual std::byte* memory_for(std::size_t, std::size_t) { return nullptr; }
  /// Throws SyncError naming the rank if a process cannot be right in what it announced, which means the same request.
  virtual void check(const Announcement&, int /*rank*/) const {}
  /// Memory that this process gives to that one for a piece.
  virtual std::vector<std::span<const std::byte>> slices_for(std::size_t place, std::size_t piece) const = 0;
  /// A piece of the share of the process at the place, reduced: where it is, or is to be.
  virtual std::span<std::byte> results_of(std::size_t place, std::size_t piece) const = 0;

 protected:
  /// Words of this process, for a kind of request that learns late what others do not compare.
  Announcement& own_announcement() noexcept { return announcement_; }

 private:
  Sequence sequence_;
  std::uint32_t number_;
  std::uint32_t pieces_;
  bool has_results_;
  Announcement announcement_;
  std::unique_ptr<Peer[]> peers_;  // indexed by place; what is at this process's own is not used
};

}  // namespace tutti
