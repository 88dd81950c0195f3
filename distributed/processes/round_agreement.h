// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/agreement.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti {

using Bytes = std::vector<std::byte>;

/// Words of the processes of a group to one another in a round, to the bytes and from them: pure, no links or threads.
/// In each generation every process gives 56 bytes for its first device and 24 for each other (`words`), of which a
/// required set is a digest. Only when a digest is new to them do they exchange the sets themselves, once. All see the
/// same bytes, so that all know, or lack, the same sets. With the sets goes the order of a layout that rank 0 proposes:
/// it holds for all from the generation after.
class RoundAgreement {
 public:
  /// Digests of what must be the same in all processes.
  struct Model {
    std::size_t parameters = 0;     ///< their number
    std::uint64_t description = 0;  ///< digest of names, shapes, dtypes and options
    std::uint64_t values = 0;       ///< digest of the parameters as training begins; 0: this process trains nothing
  };
  /// `devices`: number of each process's, by rank.
  RoundAgreement(const Model&, int rank, std::vector<std::uint32_t> devices);

  /// Takes an order of the layout's gradients, each parameter once, which the next words propose; on rank 0. One of
  /// more than kMostOrdered parameters is left out: the layout stays as it is. Where so many sets are new that it does
  /// not fit beside them, it waits for the next generation.
  void propose(std::vector<ParameterId> order);
  static constexpr std::size_t kMostOrdered = 8192;
  /// The words of this process about a generation.
  Bytes words(const Agree&);
  /// Takes all processes' words, by rank. Throws SyncError naming the rank for bytes that are none, and for another
  /// generation.
  void hear_words(std::int64_t generation, std::span<const Bytes> by_rank);
  /// Says that a process's model, options or first values are not this one's, which of them, and its rank; empty: they
  /// are the same. After `hear_words`.
  const std::string& model_difference() const noexcept { return difference_; }
  bool all_left() const;  ///< no device of any process comes again; after `hear_words`
  /// The agreement; none: the sets are to be exchanged, too. After `hear_words`.
  std::optional<Agreement> agreed() const;

  /// The sets of this process's devices that not all processes know, and the order that it proposes; after `agreed`
  /// gave none.
  Bytes sets(const Agree&) const;
  /// The agreement, from all processes' sets by rank. Throws SyncError naming the rank for bytes that are none, or that
  /// do not fit its words.
  Agreement hear_sets(std::span<const Bytes> by_rank);

 private:
  struct Device {
    std::uint64_t digest = 0;
    Agreement::Registration registration;  // its set is found later
  };
  struct Known {
    std::shared_ptr<const RequiredSet> set;
    std::uint64_t digest = 0;
  };
  std::uint64_t digest_of(const std::shared_ptr<const RequiredSet>&);
  std::string difference_from(std::size_t rank, const Model&) const;
  std::vector<std::size_t> tellers(std::size_t rank) const;
  std::size_t bytes_of_sets() const;
  Agreement agreement() const;
  std::shared_ptr<const std::vector<ParameterId>> order_of(std::span<const std::byte>) const;

  Model model_;
  std::size_t rank_;
  std::vector<std::uint32_t> devices_;
  std::vector<Known> digested_;  // this process's, newest last
  std::unordered_map<std::uint64_t, std::shared_ptr<const RequiredSet>>
      known_;                          // sets that all processes know, by digest
  std::vector<Device> heard_;          // all processes' devices, in order
  std::vector<ParameterId> proposed_;  // this process's order, until all have heard it
  bool order_comes_ = false;           // rank 0's words propose one
  std::string difference_;             // text about the first process whose model or values are others
};

}  // namespace tutti
