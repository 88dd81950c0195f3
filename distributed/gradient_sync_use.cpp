// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sync_use.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/thread_number.h>

namespace tutti {

DeviceUse::DeviceUse(SyncMember& member) noexcept : member_(member), outermost_(false), taken_(true) {
  const std::uint64_t self = this_thread_number();
  if (member.user_.load(std::memory_order_relaxed) == self) return;
  std::uint64_t none = 0;
  outermost_ = taken_ = member.user_.compare_exchange_strong(none, self, std::memory_order_acquire);
}

SyncMember& DeviceUse::allowed(SyncMember& member, std::string_view operation) {
  member.server().refuse_where_nothing_comes(operation);
  return member;
}

DeviceUse::DeviceUse(SyncMember& member, std::string_view operation) : DeviceUse(allowed(member, operation)) {
  if (taken_) return;
  const SyncError error(fmt::format("[{}] {} is used by two threads at the same time: one thread drives a device",
                                    operation, to_string(member.device())));
  member.report_failure(std::make_exception_ptr(error));
  throw error;
}

DeviceUse::~DeviceUse() {
  if (outermost_) member_.user_.store(0, std::memory_order_release);
}

std::shared_ptr<SyncWaiter> SyncMember::report_failure(std::exception_ptr error) noexcept {
  return server_.device_failed({index_, server_.group_number(), open_generation_.load(std::memory_order_relaxed)},
                               error);
}

}  // namespace tutti
