// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/engines/network/lines/data_door.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace tutti::testing {

/// A relay between processes and a door: it delays, throttles, changes and cuts what goes through it.
class Relay {
 public:
  struct Faults {
    std::chrono::microseconds delay{};        ///< for each chunk
    std::size_t chunk = 64 << 10;             ///< bytes that go on at once
    std::size_t change_at = ~std::size_t{0};  ///< that byte of what comes from a caller, once for all connections
    std::size_t cut_at = ~std::size_t{0};     ///< bytes of what comes from callers, after which all is cut
  };

  explicit Relay(Faults);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const noexcept { return door_.port(); }
  void lead_to(int port) noexcept { port_.store(port); }  ///< called before anybody comes
  std::string seen() const;                               ///< all that went through, in some order

 private:
  struct Way {
    OwnedDescriptor from;
    OwnedDescriptor to;
  };
  void run();
  bool pass(int from, int to, bool counts);

  Faults faults_;
  DataDoor door_{"127.0.0.1"};
  std::atomic<int> port_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // guards what was seen
  std::string seen_;
  std::size_t passed_ = 0;
  std::list<Way> ways_;
  std::thread thread_;
};

}  // namespace tutti::testing
