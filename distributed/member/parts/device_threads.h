// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace tutti {

/// The thread that drives one device, and how far it is in the device's step. The driving thread writes; any thread may
/// read what is atomic, which says which thread would have to come before another one can go on. On a cache line of its
/// own, as each device's thread writes to its own in every call.
class alignas(64) DeviceThread {
 public:
  /// Phase of the device's step: none, open for its backward, or posted and waiting for its release.
  enum class Phase : std::uint8_t { idle, open, posted };

  /// Enters the phase of that generation's step. For the thread that drives the device.
  void enter(Phase, std::int64_t generation) noexcept;
  /// Phase that was entered last. For the thread that drives the device.
  Phase phase() const noexcept { return phase_; }

  /// Number of the thread in which a step of the device is open and not yet posted; 0: none.
  std::uint64_t open_in() const noexcept { return open_in_.load(std::memory_order_relaxed); }
  /// Generation of the step that was opened last; 0: none.
  std::int64_t open_generation() const noexcept { return open_generation_.load(std::memory_order_relaxed); }
  /// Number of the thread that opened the last step; 0: none.
  std::uint64_t last_driver() const noexcept { return last_driver_.load(std::memory_order_relaxed); }

  /// Answer to the calling thread's wish to use the device.
  enum class Taken : std::uint8_t { refused, again, first };
  /// Reserves the device for the calling thread until `give_back`. `again`: it had reserved it already. `refused`:
  /// another thread has it.
  Taken take() noexcept;
  void give_back() noexcept { user_.store(0, std::memory_order_release); }  ///< ends a `take` that was the first

 private:
  Phase phase_ = Phase::idle;
  std::atomic<std::uint64_t> open_in_{0};
  std::atomic<std::int64_t> open_generation_{0};
  std::atomic<std::uint64_t> last_driver_{0};
  std::atomic<std::uint64_t> user_{0};  // number of the thread that is in a function of this device's
};

/// The threads that drive a group's devices, by member. One table for the whole group, so that who would wait for a
/// device sees whether it is the calling thread's own to drive.
class DeviceThreads {
 public:
  /// `members` outlive the table.
  explicit DeviceThreads(const GroupMembers& members) : members_(members), threads_(members.size()) {}

  DeviceThread& operator[](MemberIndex member) noexcept { return threads_[member]; }
  /// Throws SyncError if `waiter` would wait for another device's step, up to that generation, which the calling thread
  /// has opened and not posted: it would wait for itself.
  void refuse_waiting_for_own(MemberIndex waiter, std::int64_t generation) const;

 private:
  const GroupMembers& members_;
  std::vector<DeviceThread> threads_;
};

}  // namespace tutti
