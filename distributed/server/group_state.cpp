// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/group_state.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <utility>

namespace tutti {

void GroupState::check_alive() const {
  if (!has_failed()) return;
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

std::uint64_t GroupState::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

std::exception_ptr GroupState::error_for(std::uint64_t group) const {
  const std::lock_guard lock(mutex_);
  if (error_) return error_;
  if (group == number_) return nullptr;
  return std::make_exception_ptr(SyncError(
      fmt::format("[sync] a message of group {} came when group {} had formed: rejoin first", group, number_)));
}

void GroupState::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
}

void GroupState::form(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  number_ = number;
  error_ = nullptr;
}

}  // namespace tutti
