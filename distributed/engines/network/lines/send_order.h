// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/network_exchange.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace tutti {

/// The order in which slices go: requests of a sequence as they were launched, the pieces of each in theirs. So a
/// process that has not launched one yet keeps back nothing that another one of the sequence waits for. Thread-safe.
class SendOrder {
 public:
  /// Pieces of a request that may go now.
  struct Turn {
    std::shared_ptr<NetworkExchange> exchange;
    std::uint32_t begin = 0;  ///< 0: the announcement goes first
    std::uint32_t end = 0;
  };
  using Send = std::function<void(const Turn&)>;

  void launch(const std::shared_ptr<NetworkExchange>&);
  /// The first `ready` pieces of the request are there. Calls `send` for all that may go, of this and later requests,
  /// in their order.
  void ready(const NetworkExchange&, std::uint32_t ready, const Send& send);
  void clear();

 private:
  struct Launched {
    std::shared_ptr<NetworkExchange> exchange;
    std::uint32_t ready = 0;
    std::uint32_t sent = 0;
  };
  struct Row {
    std::mutex mutex;  // guards the row, and that what is sent keeps its order
    std::deque<Launched> launched;
  };
  std::array<Row, 2> rows_;  // indexed by sequence
};

}  // namespace tutti
