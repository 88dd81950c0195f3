// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/threads/spinning_lock.h>

#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

/// Queue of messages that the threads which post them process themselves, one thread at a time, in order of arrival.
/// Whoever finds nobody processing does so: an uncontended message is processed by its sender, without a hand-over.
/// Thread-safe.
template <class Message> class Mailbox {
 public:
  /// Adds a message and calls `process(Message&)` with it and what comes meanwhile, unless another thread is at it, or
  /// this one further up. `process` must not throw.
  template <class Process> void post(Message&& message, const Process& process) {
    {
      const auto lock = lock_spinning(mutex_);
      if (std::exchange(draining_, true)) return queue_.push_back(std::move(message));
    }
    process(message);
    while (take_batch())
      for (Message& next : batch_) process(next);
  }

 private:
  /// False, and nobody processes any more: nothing has come.
  bool take_batch() {
    batch_.clear();
    const auto lock = lock_spinning(mutex_);
    draining_ = !queue_.empty();
    batch_.swap(queue_);
    return draining_;
  }

  std::mutex mutex_;  // guards queue_ and draining_: posts come from all devices' threads
  std::vector<Message> queue_;
  std::vector<Message> batch_;  // taken from queue_; touched by the thread that processes
  bool draining_ = false;
};

}  // namespace tutti
