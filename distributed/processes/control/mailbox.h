// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/processes/control_events.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::control {

/// The place where a channel's thread and its users hand each other things. The thread alone calls what stands under
/// "of the thread".
class Mailbox {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Outgoing {
    int to = 0;
    std::vector<std::byte> bytes;
  };
  struct Counts {
    std::uint64_t strangers = 0;
    std::uint64_t garbage = 0;
  };

  Mailbox();  ///< throws Error if the system has no descriptor

  // --- of users, from any thread
  void post(Outgoing);  ///< throws Error when kMostWaiting wait already
  std::optional<ControlEvent> receive(Time deadline);
  /// Waits until open() or fail(), of which the thread does one by its own deadline. Throws Error for the latter.
  std::vector<ControlMember> wait_until_open();
  std::vector<PeerClock> clocks() const;
  Counts counts() const;
  void stop();

  std::atomic<std::uint64_t> progress{0};

  // --- of the thread
  int wake_descriptor() const { return wake_.get(); }
  /// Takes what was posted; none: stop() was called.
  std::optional<std::deque<Outgoing>> take();
  bool deliver(ControlEvent);  ///< false: a message for which there is no room, dropped
  void open(std::vector<ControlMember>);
  void fail(std::string why) noexcept;  ///< the first counts
  void publish(std::vector<PeerClock>, Counts);

  static constexpr std::size_t kMostWaiting = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

 private:
  void wake();

  OwnedDescriptor wake_;
  mutable std::mutex lock_;  // guards everything below: users' threads and the channel's meet here
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;
  std::deque<ControlEvent> events_;
  std::size_t bytes_ = 0;  // total of the messages in events_
  std::optional<std::vector<ControlMember>> members_;
  std::optional<std::string> failure_;
  std::vector<PeerClock> clocks_;
  Counts counts_;
  bool stopping_ = false;
};

}  // namespace tutti::control
