// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

struct ReplicaState;

/// Everything that a generation has launched; complete once it is released.
struct RoundResult {
  struct Share {  // the owner's part of a scattered gradient
    MemberIndex owner = 0;
    ParameterId parameter;
    Array gradient;  ///< flat: the owner's range of it
  };
  struct Reduced {
    std::span<const GradientLayout::Place> bucket;  ///< places in `layout`
    std::shared_ptr<CollectiveTask> task;
    /// Flat bucket of each member's result, now or soon; undefined: it receives none.
    std::vector<Array> results;
    std::shared_ptr<const SparseResult> sparse = nullptr;  ///< result of a sparse parameter, in place of `results`
    bool reaches(std::size_t member) const { return sparse ? sparse->receives[member] : results[member].defined(); }
    std::vector<Share> shares{};  ///< owners and parameters of what `results` hold, if gradients are scattered
  };
  std::shared_ptr<const ReplicaState> state{};  ///< state to continue from, for a follower: there is no round then
  std::int64_t generation = 0;
  std::shared_ptr<const GradientLayout> layout;
  double total_weight = 0.0;
  std::vector<Reduced> reduced;                               ///< listed in order of launch
  std::vector<std::shared_ptr<CollectiveTask>> buffer_tasks;  ///< make the replicas' buffers equal, in place
  std::vector<std::vector<Array>> followers_buffers;          ///< buffers of each member that left, now or soon
};

/// Tells one device, once, that the server has answered it.
class Answered {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  void wait() const noexcept { done_.wait(false, std::memory_order_acquire); }
  const std::exception_ptr& error() const noexcept { return error_; }  ///< valid once done

 protected:
  ~Answered() = default;
  void answer(std::exception_ptr error) {
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::exception_ptr error_;
  std::atomic<bool> done_{false};
};

/// A one-shot answer: a result, an error, or both (what was launched before the failure).
template <class Result> class Answer final : public Answered {
 public:
  const std::shared_ptr<const Result>& result() const noexcept { return result_; }  ///< valid once done

  /// Called once, by the server.
  void release(std::shared_ptr<const Result> result, std::exception_ptr error = {}) {
    result_ = std::move(result);
    answer(std::move(error));
  }

 private:
  std::shared_ptr<const Result> result_;
};

/// Work that a matched collective has launched, for one device.
struct CollectiveResult {
  std::shared_ptr<CollectiveTask> task;  ///< null: there is nothing to do (barrier)
  Array output;                          ///< undefined for a barrier
  std::vector<std::int64_t> received;    ///< lengths along axis 0 from each device, where the output has such parts
  bool differentiable = false;           ///< some device's input requires a gradient
};

using SyncWaiter = Answer<RoundResult>;
using CollectiveWaiter = Answer<CollectiveResult>;

}  // namespace tutti
