// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/loop_executor.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti {
namespace {

/// The parts of one loop. Shared with what the executor calls, which it may keep: a late call finds that all is over.
class LoopParts {
 public:
  LoopParts(int count, FunctionRef<void()> help) : help_(help), called_(static_cast<std::size_t>(count)) {}

  void call(int part) noexcept {
    if (!begin(part)) return;
    help_();
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) none_runs_.notify_all();
  }

  /// Lets no part begin any more, and waits for those that run: what they have written is seen here.
  void end() noexcept {
    std::unique_lock lock(mutex_);
    left_running_ = running_;
    ended_ = true;
    none_runs_.wait(lock, [this] { return running_ == 0; });  // ends: blocks of loops wait for nothing
  }

  /// After `end`.
  void check(Device device) const {
    const std::size_t count = called_.size();
    if (unknown_)
      raise("[set_cpu_executor] {}: the executor called part {} of {}", to_string(device), *unknown_, count);
    if (repeated_) raise("[set_cpu_executor] {}: the executor called part {} twice", to_string(device), *repeated_);
    if (left_running_ > 0)
      raise("[set_cpu_executor] {}: the executor returned while {} of {} parts still ran", to_string(device),
            left_running_, count);
    const auto missed = std::find(called_.begin(), called_.end(), false);
    if (missed != called_.end())
      raise("[set_cpu_executor] {}: the executor returned without a call of part {} of {}", to_string(device),
            missed - called_.begin(), count);
  }

 private:
  bool begin(int part) noexcept {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (part < 0 || static_cast<std::size_t>(part) >= called_.size()) {
      unknown_ = part;
      return false;
    }
    if (called_[static_cast<std::size_t>(part)]) {
      repeated_ = part;
      return false;
    }
    called_[static_cast<std::size_t>(part)] = true;
    ++running_;
    return true;
  }

  FunctionRef<void()> help_;  // gone after `end`
  std::mutex mutex_;          // guards the rest: parts are called on any threads
  std::condition_variable none_runs_;
  std::vector<bool> called_;
  int running_ = 0;
  int left_running_ = 0;
  bool ended_ = false;
  std::optional<int> unknown_;
  std::optional<int> repeated_;
};

}  // namespace

void LoopExecutor::run(int parts, FunctionRef<void()> help) const {
  const auto all = std::make_shared<LoopParts>(parts, help);
  const std::function<void(int)> call = [all](int part) { all->call(part); };  // stays until no part runs
  try {
    executor_(parts, call);
  } catch (...) {
    all->end();
    throw;
  }
  all->end();
  all->check(device_);
}

}  // namespace tutti
