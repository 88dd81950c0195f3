// SPDX-License-Identifier: Apache-2.0
// The part of NcclCommunicator that several processes need: requests that wait until all have them, and the end of all.
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tutti {

// On whatever thread hears that all have it.
void NcclCommunicator::launch_held(Sequence sequence) {
  {
    const std::lock_guard lock(mutex_);
    auto& waiting = held_[static_cast<std::size_t>(sequence)];
    if (waiting.empty()) return;  // the group has ended
    queue_.push_back(std::move(waiting.front().task));
    waiting.pop_front();
  }
  requested_.notify_one();
}

void NcclCommunicator::connect_now(const std::function<void()>& look_around) try {
  std::shared_ptr<NcclTask> task;
  {
    const std::lock_guard lock(mutex_);
    task = std::make_shared<NcclTask>(
        "the connection", [](NcclGroup&, NcclTask&) {}, members_);
    queue_.push_back(task);
  }
  requested_.notify_one();
  for (; !task->launched(); std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (look_around) look_around();
  task->join(devices_.front());
} catch (...) {
  end_all(std::current_exception());
  throw;
}

void NcclCommunicator::abort(std::string_view reason) noexcept {
  std::exception_ptr error;
  try {
    error = std::make_exception_ptr(SyncError(std::string(reason)));
  } catch (...) {
    error = std::current_exception();  // no memory for the text
  }
  end_all(error);
}

std::exception_ptr NcclCommunicator::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void NcclCommunicator::throw_if_ended() {
  if (const std::exception_ptr error = ended()) std::rethrow_exception(error);
}

// The first reason counts. What runs is ended by the thread, which sees it.
void NcclCommunicator::end_all(const std::exception_ptr& error) noexcept {
  std::deque<std::shared_ptr<NcclTask>> waiting;
  std::array<std::deque<Held>, 2> held;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = error;
    waiting.swap(queue_);
    held.swap(held_);
  }
  requested_.notify_one();
  for (const auto& task : waiting) task->end(error);
  for (const auto& sequence : held)
    for (const Held& each : sequence) each.task->end(error);
}

// Waits, after an error of NCCL's: it notices a process that has gone sooner than it is told who that is.
std::exception_ptr NcclCommunicator::verdict_on(std::exception_ptr error) {
  if (!order_) return error;
  constexpr auto kVerdict = std::chrono::seconds(1);
  std::unique_lock lock(mutex_);
  requested_.wait_for(lock, kVerdict, [this] { return ended_ != nullptr || stopping_; });
  return ended_ ? ended_ : error;
}

// Begins the waits anew after a standstill of this process, in which it could not have heard that all have a request.
void NcclCommunicator::note_standstill(StandstillWatch& standstill) {
  const auto now = StandstillWatch::Clock::now();
  if (standstill.look(now) == StandstillWatch::Clock::duration::zero()) return;
  for (auto& waiting : held_)
    for (Held& held : waiting) held.since = now;
}

void NcclCommunicator::give_up_held() {
  const auto now = std::chrono::steady_clock::now();
  for (const Sequence sequence : {Sequence::round, Sequence::users}) {
    std::string name;
    {
      const std::lock_guard lock(mutex_);
      const auto& waiting = held_[static_cast<std::size_t>(sequence)];
      if (waiting.empty() || now - waiting.front().since <= fail_after_) continue;
      name = waiting.front().task->name();
    }
    std::string ranks;
    for (const int rank : order_->missing(sequence)) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    end_all(std::make_exception_ptr(SyncError(fmt::format("[nccl] {} has waited {} ms for rank {}", name,
                                                          fail_after_.count(), ranks.empty() ? "unknown" : ranks))));
  }
}

}  // namespace tutti
