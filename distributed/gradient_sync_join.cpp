// SPDX-License-Identifier: Apache-2.0
// How a device waits for the step that it has posted, and takes its result.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync_use.h>
#include <tutti/distributed/thread_number.h>

#include <utility>

namespace tutti {

// Every look at a gradient comes here, perhaps in a thread that should not: until there is something to join, only what
// is atomic is read.
void SyncMember::join() {
  if (!may_join_.load(std::memory_order_relaxed)) {
    if (last_driver() == 0 && !left_) server_.check_alive();  // before its first step the group alone knows a failure
    return;
  }
  const DeviceUse use(*this, "sync.join");
  if (posted_.waiter && phase_ == Phase::posted && !double_buffered()) {
    refuse_waiting_for_posted();
    finish_posted();
  }
  if (failure_) std::rethrow_exception(failure_);
}

void SyncMember::set_failure(std::exception_ptr error) noexcept {
  failure_ = std::move(error);
  may_join_.store(failure_ != nullptr, std::memory_order_relaxed);
}

// The result of a step, once its reductions on this device are done. What it returns failed the step: no reduction
// touches this device's storage any more, and there are no gradients.
std::exception_ptr SyncMember::collect(Posted& posted, std::shared_ptr<const RoundResult>& result) noexcept {
  server_.await(*posted.waiter, index_);
  const std::shared_ptr<SyncWaiter> waiter = std::exchange(posted.waiter, nullptr);
  std::exception_ptr error = waiter->error();
  // Committed: unless it is installed, whoever loads a checkpoint of it writes its parameters.
  if (!error) installed_ = {waiter->result()->generation, gradients_.versions()};
  if (!error) try {
      wait_for_reductions(*waiter->result());
      result = waiter->result();
      return nullptr;
    } catch (...) {
      const auto acknowledged = server_.device_failed({index_, group_number_, posted.generation},
                                                      error = std::current_exception(), Fault::Kind::reduction_failed);
      acknowledged->wait();
      if (acknowledged->error()) error = acknowledged->error();
    }
  wait_for_tasks(waiter->result().get());
  gradients_.invalidate();
  return error;
}

void SyncMember::finish_posted() noexcept {
  if (!posted_.waiter) return;
  if (phase_ == Phase::posted) set_phase(Phase::idle);
  std::shared_ptr<const RoundResult> result;
  set_failure(collect(posted_, result));
  if (!failure_) try {
      install(*result, posted_);
    } catch (...) {  // an optimizer's
      fail(std::current_exception());
    }
}

void SyncMember::wait_for_reductions(const RoundResult& round) {
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (const auto& reduced : round.reduced)
    if (reduced.reaches(index_)) tasks.push_back(reduced.task);
  tasks.insert(tasks.end(), round.buffer_tasks.begin(), round.buffer_tasks.end());
  join_tasks(device_, tasks);
}

void SyncMember::install(const RoundResult& round, const Posted& posted) {
  if (round.total_weight == 0.0 && posted.required)
    for (const ParameterId id : posted.required->parameters()) gradients_.slot(id).state = GradientState::undefined;
  gradients_.install(round, index_, posted.arena.get());
  note_installed(round);
  if (updates_) updates_->finish(round, index_);
  joined_generation_ = round.generation;
  total_weight_ = round.total_weight;
  server_.note_joined({index_, group_number_, round.generation});
}

void SyncMember::refuse_waiting_for_posted() const {
  if (posted_.waiter && !posted_.waiter->done()) refuse_waiting_for_own_thread(posted_.generation);
}

void SyncMember::refuse_waiting_for_own_thread(std::int64_t generation) const {
  for (const SyncMember* peer : peers_) {
    const std::int64_t open = peer->open_generation_.load(std::memory_order_relaxed);
    if (peer != this && peer->open_in_thread() == this_thread_number() && open <= generation)
      raise<SyncError>(
          "[sync] {} would wait for {} in step {}, which this same thread drives and has not posted: call "
          "backward_async on every device of a thread, then join_all",
          to_string(device_), to_string(peer->device()), open);
  }
}

void SyncMember::wait_for_tasks(const RoundResult* round) noexcept {
  if (round == nullptr) return;
  const auto wait = [this](const std::shared_ptr<CollectiveTask>& task) {
    try {
      task->join(device_);
    } catch (...) {
      // the group has failed already; only that the task ended matters here
    }
  };
  for (const auto& reduced : round->reduced)
    if (reduced.reaches(index_) || !reduced.task->finished()) wait(reduced.task);
  for (const auto& task : round->buffer_tasks) wait(task);
}

}  // namespace tutti
