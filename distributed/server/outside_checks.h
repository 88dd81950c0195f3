// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/server/difference_search.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Comparisons of this process's replicas with those of the other processes, one after the other. Touched while
/// messages are processed.
class OutsideChecks {
 public:
  using Bytes = ProcessLink::Bytes;
  using Waiters = std::vector<std::shared_ptr<SyncWaiter>>;
  static constexpr std::int64_t kModels = -1;  ///< subject where models are compared, not replicas before a generation

  /// Consequence of words.
  struct Outcome {
    std::optional<Bytes> say{};               ///< this is said next
    std::optional<std::string> difference{};  ///< the first thing that differs; the comparison has ended
    bool of_models = false;                   ///< the difference is one of models
    bool equal = false;                       ///< a comparison has ended well
    bool answered = false;                    ///< devices that waited for its end were told
  };

  /// Begins a comparison once those before it have ended; returns what is said now, if anything is. `waiters` hear of
  /// the end. `known`: what is known of the difference already, which its text begins with.
  std::optional<Bytes> begin(std::int64_t subject, ReplicaDigest, Waiters waiters, std::string known = {});
  /// Takes the words of all processes. Nothing follows where no comparison is open: this process is silent.
  Outcome hear(std::span<const Bytes> by_rank);
  void fail(const std::exception_ptr&);  ///< answers all who wait

  bool is_empty() const noexcept { return open_.empty(); }
  bool is_searching() const { return !open_.empty() && open_.front().search.is_searching(); }
  bool is_awaited() const;  ///< some device waits for the end of one

 private:
  struct Check {
    DifferenceSearch search;
    Waiters waiters;
    std::string known;
  };
  std::deque<Check> open_;
};

}  // namespace tutti
