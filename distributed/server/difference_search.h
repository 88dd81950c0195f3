// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/replica_check.h>
#include <tutti/distributed/processes/process_link.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tutti {

/// Search for the first item in which the processes of a group differ, by words that all say to each other: a digest of
/// all items, and where these differ, of half of what is left, until one is left, which they name. One that says
/// nothing takes no part. Pure: all processes hear the same words, and come to the same end.
class DifferenceSearch {
 public:
  using Bytes = ProcessLink::Bytes;
  struct Say {
    Bytes words;
  };
  struct Equal {};
  struct Found {
    std::string text;  ///< `parameter "w" is not the same on rank 1 (digest ...) as on rank 0 (digest ...)`
  };
  using Answer = std::variant<Say, Equal, Found>;

  /// `subject`: what is compared, the same number on all processes; below 0 for models, not replicas.
  DifferenceSearch(std::int64_t subject, ReplicaDigest items) : subject_(subject), items_(std::move(items)) {}

  /// The processes differ, and in what is being looked for.
  bool is_searching() const noexcept { return end_ > 0; }
  Bytes words() const;  ///< words that this process says next; at first, and after an answer that says so
  /// Throws SyncError, naming the rank, for bytes that are no words, and for another subject.
  Answer hear(std::span<const Bytes> by_rank);

 private:
  struct Heard;
  std::vector<Heard> heard_in(std::span<const Bytes> by_rank) const;
  Digest digest_of_range() const;
  static std::string text_of(const Heard& first, const Heard& other);

  std::int64_t subject_;
  ReplicaDigest items_;
  std::size_t begin_ = 0;   // all before it are the same
  std::size_t middle_ = 0;  // digests are those of [begin_, middle_); 0: of all items, at the beginning
  std::size_t end_ = 0;     // some in [begin_, end_) differ
};

}  // namespace tutti
