// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/parameter_id.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_layout.h>
#include <tutti/distributed/sync_ledger.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

struct ReplicaState;

/// What a generation has launched; complete once it is released.
struct RoundResult {
  struct Share {  // of a scattered gradient
    MemberIndex owner = 0;
    ParameterId parameter;
    Array gradient;  ///< flat: the owner's range of it
  };
  struct Reduced {
    std::span<const GradientLayout::Place> bucket;  ///< in `layout`
    std::shared_ptr<CollectiveTask> task;
    std::vector<Array> results;  ///< by member: the flat bucket of its result, now or soon; undefined: it receives none
    std::shared_ptr<const SparseResult> sparse = nullptr;  ///< of a sparse parameter, in place of `results`
    bool reaches(std::size_t member) const { return sparse ? sparse->receives[member] : results[member].defined(); }
    std::vector<Share> shares{};  ///< if gradients are scattered: what `results` hold of which parameter
  };
  std::shared_ptr<const ReplicaState> state{};  ///< for a follower: no round, but what it is to continue from
  std::int64_t generation = 0;
  std::shared_ptr<const GradientLayout> layout;
  double total_weight = 0.0;
  std::vector<Reduced> reduced;                               ///< in order of launch
  std::vector<std::shared_ptr<CollectiveTask>> buffer_tasks;  ///< make the replicas' buffers equal, in place
  std::vector<std::vector<Array>> followers_buffers;          ///< by member: for one that has left, now or soon
};

/// That the server has answered one device, once.
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

/// What a matched collective has launched, for one device.
struct CollectiveResult {
  std::shared_ptr<CollectiveTask> task;  ///< null: there is nothing to do (barrier)
  Array output;                          ///< undefined for a barrier
  std::vector<std::int64_t> received;    ///< lengths along axis 0 from each device, where the output has such parts
  bool differentiable = false;           ///< some device's input requires a gradient
};

using SyncWaiter = Answer<RoundResult>;
using CollectiveWaiter = Answer<CollectiveResult>;

}  // namespace tutti
