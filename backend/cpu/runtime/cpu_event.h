// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/stream.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

namespace tutti {

/// An event that one thread completes and any thread waits for: spins briefly, then blocks.
class CpuEvent final : public EventState {
 public:
  CpuEvent() = default;
  explicit CpuEvent(bool done) : done_(done ? 1U : 0U) {}

  bool ready() const override { return done_.load(std::memory_order_acquire) != 0; }
  void synchronize() override;

  /// Ends the event; called once. Waiters return, or rethrow `error` where there is one.
  void complete(std::exception_ptr error = nullptr) noexcept;

 private:
  std::atomic<std::uint32_t> done_{0};
  std::exception_ptr error_;  // written before done_
};

/// Ready when all of several events are.
class JointEvent final : public EventState {
 public:
  explicit JointEvent(std::vector<Event> events) : events_(std::move(events)) {}

  bool ready() const override;
  void synchronize() override;

 private:
  std::vector<Event> events_;
};

}  // namespace tutti
