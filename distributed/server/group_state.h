// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace tutti {

/// Says which group of the same devices this is, and whether it has failed: what devices' threads read while messages
/// are processed. Thread-safe.
class GroupState {
 public:
  /// Throws the group's error if it has failed.
  void check_alive() const;
  /// True until the next group has formed and can be used.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  std::uint64_t number() const;
  /// Returns what a message of that group is answered with: the error of the group, or that another has formed; null if
  /// there is none.
  std::exception_ptr error_for(std::uint64_t group) const;

  // --- called while messages are processed
  void fail(std::exception_ptr);
  void form(std::uint64_t number);  ///< begins the next group, which can be used after `open`
  void open() noexcept { failed_.store(false, std::memory_order_release); }

 private:
  mutable std::mutex mutex_;  // guards error_ and number_
  std::exception_ptr error_;
  std::uint64_t number_ = 1;
  std::atomic<bool> failed_{false};  // error_ is set; spares submissions the lock
};

}  // namespace tutti
