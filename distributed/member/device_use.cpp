// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/device_use.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

namespace tutti {

DeviceUse::DeviceUse(SyncMember& member) noexcept : member_(member), taken_(member.thread().take()) {}

SyncMember& DeviceUse::allowed(SyncMember& member, std::string_view operation) {
  member.server().refuse_where_nothing_comes(operation);
  return member;
}

DeviceUse::DeviceUse(SyncMember& member, std::string_view operation) : DeviceUse(allowed(member, operation)) {
  if (taken_ != DeviceThread::Taken::refused) return;
  const SyncError error(fmt::format("[{}] {} is used by two threads at the same time: one thread drives a device",
                                    operation, member.name()));
  member.report_failure(std::make_exception_ptr(error));
  throw error;
}

DeviceUse::~DeviceUse() {
  if (taken_ == DeviceThread::Taken::first) member_.thread().give_back();
}

}  // namespace tutti
