// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/parameter_id.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_layout.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// What a generation has launched; complete once it is released.
struct RoundResult {
  struct Reduced {
    std::span<const GradientLayout::Place> bucket;  ///< in `layout`
    std::shared_ptr<CollectiveTask> task;
    std::vector<Array> results;  ///< by member: the flat bucket of its result, now or soon; undefined: it receives none
  };
  std::int64_t generation = 0;
  std::shared_ptr<const GradientLayout> layout;
  double total_weight = 0.0;
  std::vector<Reduced> reduced;  ///< in order of launch
};

/// A one-shot answer of the server to one device: a result, an error, or both (what was launched before the failure).
class SyncWaiter {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  void wait() const noexcept { done_.wait(false, std::memory_order_acquire); }

  // Valid once done.
  const std::exception_ptr& error() const noexcept { return error_; }
  const std::shared_ptr<const RoundResult>& result() const noexcept { return result_; }

  /// Called once, by the server.
  void release(std::shared_ptr<const RoundResult> result, std::exception_ptr error = {}) {
    result_ = std::move(result);
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::shared_ptr<const RoundResult> result_;
  std::exception_ptr error_;
  std::atomic<bool> done_{false};
};

}  // namespace tutti
