// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/mpi/mpi_calls.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace tutti::testing {

/// An MPI whose ranks are threads. It lets messages wait as MPI may: a send is over only when it was received, and some
/// looks later, unless it is short.
class MpiSimulation {
 public:
  explicit MpiSimulation(std::size_t ranks);
  ~MpiSimulation();

  MpiCalls& rank(std::size_t);
  std::size_t unreceived() const;  ///< number of long messages that were sent and never received
  bool aborted() const;
  void fail(std::size_t rank);  ///< from now on its sends are errors

 private:
  class Rank;
  /// A send or a receive.
  struct Message {
    std::size_t from;
    std::size_t to;
    std::uint64_t communicator;
    int tag;
    const std::byte* out;
    std::byte* in;
    std::size_t bytes;
    std::vector<std::byte> copy{};  // of a short one
    bool matched = false;
    bool cancelled = false;
    int looks = 0;  // that it takes until it is over
  };
  std::shared_ptr<Message> send(Message);
  std::shared_ptr<Message> receive(Message);
  static bool fits(const Message& sent, const Message& received);
  void deliver(Message& sent, Message& received);

  mutable std::mutex mutex_;  // guards everything
  std::minstd_rand random_{7};
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::list<std::shared_ptr<Message>> sent_;      // those that nobody has received
  std::list<std::shared_ptr<Message>> received_;  // receives for which nothing has come
  std::vector<std::size_t> joined_;               // number of ranks that have asked for each communicator
  bool aborted_ = false;
};

}  // namespace tutti::testing
