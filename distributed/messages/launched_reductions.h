// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/sync_waiter.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace tutti {

/// The reductions that the current generation has launched so far, for devices that use results before the generation
/// is released. Thread-safe: the server's drain appends while devices read.
class LaunchedReductions {
 public:
  void clear() {
    const std::lock_guard lock(mutex_);
    launched_.clear();
  }
  void append(const RoundResult::Reduced& reduced) {
    const std::lock_guard lock(mutex_);
    launched_.push_back(reduced);
  }
  /// All but the first `known`, in order of launch.
  std::vector<RoundResult::Reduced> after(std::size_t known) const {
    const std::lock_guard lock(mutex_);
    return {launched_.begin() + static_cast<std::ptrdiff_t>(known), launched_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<RoundResult::Reduced> launched_;
};

}  // namespace tutti
