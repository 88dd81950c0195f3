// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/device_threads.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/threads/thread_number.h>

namespace tutti {

void DeviceThread::enter(Phase phase, std::int64_t generation) noexcept {
  phase_ = phase;
  open_generation_.store(generation, std::memory_order_relaxed);
  const std::uint64_t opener = phase == Phase::open ? this_thread_number() : 0;
  if (opener != 0) last_driver_.store(opener, std::memory_order_relaxed);
  open_in_.store(opener, std::memory_order_relaxed);
}

DeviceThread::Taken DeviceThread::take() noexcept {
  const std::uint64_t self = this_thread_number();
  if (user_.load(std::memory_order_relaxed) == self) return Taken::again;
  std::uint64_t none = 0;
  return user_.compare_exchange_strong(none, self, std::memory_order_acquire) ? Taken::first : Taken::refused;
}

void DeviceThreads::refuse_waiting_for_own(MemberIndex waiter, std::int64_t generation) const {
  for (MemberIndex peer = 0; peer < threads_.size(); ++peer) {
    const std::int64_t open = threads_[peer].open_generation();
    if (peer != waiter && threads_[peer].open_in() == this_thread_number() && open <= generation)
      raise<SyncError>(
          "[sync] {} would wait for {} in step {}, which this same thread drives and has not posted: call "
          "backward_async on every device of a thread, then join_all",
          members_.name(waiter), members_.name(peer), open);
  }
}

}  // namespace tutti
