// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/step_results.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <utility>

namespace tutti {

StepResults::StepResults(const MemberPlace& place, const Standing& standing, ReplicaGradients& gradients)
    : place_(place), standing_(standing), gradients_(gradients) {}

StepResults::~StepResults() {
  updates_ = nullptr;
  finish_posted();
  if (place_.thread().phase() == DeviceThread::Phase::open) gradients_.invalidate();
}

// --- a step

void StepResults::begin_step() { earlier_ = std::exchange(posted_, {}); }

void StepResults::post(std::shared_ptr<SyncWaiter> waiter, std::shared_ptr<const RequiredSet> required,
                       std::shared_ptr<const GradientArena> arena) {
  posted_ = {std::move(waiter), std::move(arena), std::move(required), standing_.generation()};
  place_.thread().enter(DeviceThread::Phase::posted, standing_.generation());
  if (!place_.double_buffered()) return may_join_.store(true, std::memory_order_relaxed);
  gradients_.invalidate();  // what this step accumulated is on its way
  if (const auto arrived = std::exchange(arrived_, nullptr)) install(*arrived, earlier_);
}

void StepResults::join_earlier() {
  if (!earlier_.waiter) return;
  if (!earlier_.waiter->done()) place_.threads.refuse_waiting_for_own(place_.index, earlier_.generation);
  if (const auto error = collect(earlier_, arrived_)) std::rethrow_exception(error);
}

void StepResults::refuse_waiting_for_posted() const {
  if (posted_.waiter && !posted_.waiter->done())
    place_.threads.refuse_waiting_for_own(place_.index, posted_.generation);
}

void StepResults::finish_posted() noexcept {
  if (!posted_.waiter) return;
  if (place_.thread().phase() == DeviceThread::Phase::posted)
    place_.thread().enter(DeviceThread::Phase::idle, standing_.generation());
  std::shared_ptr<const RoundResult> result;
  set_failure(collect(posted_, result));
  if (!failure_) try {
      install(*result, posted_);
    } catch (...) {  // an optimizer's
      fail(std::current_exception());
    }
}

// The result of a step, once its reductions on this device are done. What it returns failed the step: no reduction
// touches this device's storage any more, and there are no gradients.
std::exception_ptr StepResults::collect(Posted& posted, std::shared_ptr<const RoundResult>& result) noexcept {
  place_.server.await_release(*posted.waiter, place_.index);
  const std::shared_ptr<SyncWaiter> waiter = std::exchange(posted.waiter, nullptr);
  std::exception_ptr error = waiter->error();
  // Committed: unless it is installed, whoever loads a checkpoint of it writes its parameters.
  if (!error) installed_ = {waiter->result()->generation, gradients_.versions()};
  if (!error) try {
      wait_for_reductions(*waiter->result());
      result = waiter->result();
      return nullptr;
    } catch (...) {
      const auto acknowledged = place_.server.device_failed(
          standing_.stamp(posted.generation), error = std::current_exception(), Fault::Kind::reduction_failed);
      acknowledged->wait();
      if (acknowledged->error()) error = acknowledged->error();
    }
  wait_for_tasks(waiter->result().get());
  gradients_.invalidate();
  return error;
}

void StepResults::wait_for_reductions(const RoundResult& round) {
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (const auto& reduced : round.reduced)
    if (reduced.reaches(place_.index)) tasks.push_back(reduced.task);
  tasks.insert(tasks.end(), round.buffer_tasks.begin(), round.buffer_tasks.end());
  join_tasks(place_.device, tasks);
}

void StepResults::wait_for_tasks(const RoundResult* round) noexcept {
  if (round == nullptr) return;
  const auto wait = [this](const std::shared_ptr<CollectiveTask>& task) {
    try {
      task->join(place_.device);
    } catch (...) {
      // the group has failed already; only that the task ended matters here
    }
  };
  for (const auto& reduced : round->reduced)
    if (reduced.reaches(place_.index) || !reduced.task->finished()) wait(reduced.task);
  for (const auto& task : round->buffer_tasks) wait(task);
}

// --- taking a result

void StepResults::install(const RoundResult& round, const Posted& posted) {
  if (round.total_weight == 0.0 && posted.required)
    for (const ParameterId id : posted.required->parameters()) gradients_.slot(id).state = GradientState::undefined;
  gradients_.install(round, place_.index, posted.arena.get());
  note_installed(round);
  if (updates_) updates_->finish(round, place_.index);
  joined_generation_ = round.generation;
  total_weight_ = round.total_weight;
  place_.server.note_joined(standing_.stamp(round.generation));
}

// With Overlap::in_backward the result is used as it comes, and of one that does not reach this device nothing is to be
// used.
void StepResults::note_installed(const RoundResult& round) {
  const bool reached =
      std::ranges::any_of(round.reduced, [this](const auto& reduced) { return reduced.reaches(place_.index); });
  installed_ = {round.generation, reached && !updates_ ? gradients_.versions() : ReplicaGradients::Versions()};
}

void StepResults::take(const RoundResult& round) {
  wait_for_reductions(round);
  install(round, {});
}

// Whatever writes to a parameter after a result was installed counts as its update; so does a checkpoint that is
// loaded.
std::int64_t StepResults::last_applied() const {
  const bool waits = !installed_.unwritten.empty() && installed_.unwritten == gradients_.versions();
  return installed_.generation - (waits ? 1 : 0);
}

// --- failures

void StepResults::set_failure(std::exception_ptr error) noexcept {
  failure_ = std::move(error);
  may_join_.store(failure_ != nullptr, std::memory_order_relaxed);
}

void StepResults::fail(std::exception_ptr error) noexcept {
  if (failure_ && place_.server.has_failed()) return;  // its failure may be an older group's, or have gone untold
  Stamp now = standing_.stamp();
  if (standing_.has_left()) now.group = place_.server.group_number();  // one that follows may not have entered it yet
  const auto acknowledged = place_.server.device_failed(now, error);
  acknowledged->wait();
  set_failure(acknowledged->error() ? acknowledged->error() : error);  // the group's names the device
  wait_for_tasks(acknowledged->result().get());
  // Steps that were posted have their answers now: their own, if they were committed before.
  std::shared_ptr<const RoundResult> result;
  for (Posted* posted : {&earlier_, &posted_})
    if (posted->waiter) collect(*posted, result);
  arrived_ = nullptr;
  place_.thread().enter(DeviceThread::Phase::idle, standing_.generation());
  gradients_.invalidate();
}

void StepResults::forget() noexcept {
  set_failure(nullptr);
  arrived_ = nullptr;
  joined_generation_ = 0;
  total_weight_ = 0.0;
  installed_ = {};
  gradients_.invalidate();
}

// --- optimizers of Overlap::in_backward

void StepResults::attach(Optimizer& optimizer, std::weak_ptr<const void> owner) {
  if (!updates_) updates_ = std::make_unique<BackwardUpdates>(gradients_, place_.name());
  updates_->add(optimizer, std::move(owner));
}

void StepResults::declare_updates(std::uint64_t group) {
  if (!updates_) return;
  try {
    place_.server.declare_updates(place_.index, group, updates_->covered());
  } catch (const SyncError&) {
    fail(std::current_exception());
    throw;
  }
}

std::vector<bool> StepResults::updated() const { return updates_ ? updates_->covered() : std::vector<bool>(); }

void StepResults::reset_updates() {
  if (updates_) updates_->reset();
}

void StepResults::poll_updates(bool unknown_reads) {
  if (updates_) updates_->poll(place_.server, place_.device, place_.index, unknown_reads);
}

}  // namespace tutti
