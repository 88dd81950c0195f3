// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/cpu_event.h>

#include <tutti/backend/cpu/runtime/spin.h>

#include <algorithm>

namespace tutti {

void CpuEvent::synchronize() {
  if (!spin_until([this] { return ready(); })) done_.wait(0, std::memory_order_acquire);
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void CpuEvent::complete(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  done_.store(1, std::memory_order_release);
  done_.notify_all();
}

bool JointEvent::ready() const {
  return std::all_of(events_.begin(), events_.end(), [](const Event& event) { return event.ready(); });
}

void JointEvent::synchronize() {
  for (const Event& event : events_) event.synchronize();
}

}  // namespace tutti
