// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/staged_task.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

std::int64_t front(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed & 0xFFFFFFFFU); }
std::int64_t back(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed >> 32U); }

}  // namespace

bool StagedTask::Stage::has_unclaimed() const {
  const std::uint64_t now = claimed.load(std::memory_order_relaxed);
  return front(now) + back(now) < chunks;
}

std::int64_t StagedTask::Stage::claim(bool forwards) {
  std::uint64_t now = claimed.load(std::memory_order_relaxed);
  while (front(now) + back(now) < chunks)
    if (claimed.compare_exchange_weak(now, now + (forwards ? 1 : std::uint64_t{1} << 32U), std::memory_order_relaxed))
      return forwards ? front(now) : chunks - 1 - back(now);
  return -1;
}

StagedTask::StagedTask(std::vector<Event> inputs, std::vector<WorkStage> stages)
    : inputs_(std::move(inputs)), stages_(stages.size()) {
  std::erase_if(inputs_, [](const Event& event) { return !event.recorded(); });
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages_[i].chunks = stages[i].chunks;
    stages_[i].run = std::move(stages[i].run);
    stages_[i].remaining.store(stages[i].chunks, std::memory_order_relaxed);
  }
}

bool StagedTask::ready() const {
  return std::all_of(inputs_.begin(), inputs_.end(), [](const Event& event) { return event.ready(); });
}

void StagedTask::wait_for_inputs() const noexcept {
  for (const Event& event : inputs_) try {
      event.synchronize();
    } catch (...) {
      // seen again by run_chunk
    }
}

bool StagedTask::has_unclaimed_chunks() const {
  const std::uint32_t stage = progress();
  return stage != kFinished && stages_[stage].has_unclaimed();
}

bool StagedTask::may_have_more() const {
  const std::uint32_t stage = progress();
  return stage != kFinished && (stage + 1 < stages_.size() || stages_[stage].has_unclaimed());
}

// The first thread claims from the front, the next from the back, and so on, so that two of them stream through a half
// each. Chunks of a stage that is over are all claimed: a thread that comes late finds none.
void StagedTask::run() {
  const bool forwards = runners_.fetch_add(1, std::memory_order_relaxed) % 2 == 0;
  for (std::uint32_t stage; (stage = progress()) != kFinished;) {
    Stage& current = stages_[stage];
    const std::int64_t chunk = current.claim(forwards);
    if (chunk < 0) {
      if (progress() == stage) return;
      continue;
    }
    const auto start = Clock::now();
    run_chunk(current, chunk);
    busy_ns_.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
    if (current.remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) end_stage(stage);
  }
}

// Called by the thread that ended the stage's last chunk: no other touches the failure any more.
void StagedTask::end_stage(std::uint32_t stage) {
  if (!failure_ && stage + 1 < stages_.size()) return advance(stage + 1);
  for (Stage& each : stages_) each.run = nullptr;  // reports keep finished tasks for long
  finish(std::move(failure_));
}

void StagedTask::skip() {
  for (Stage& each : stages_) each.run = nullptr;
  finish();
}

void StagedTask::run_chunk(Stage& stage, std::int64_t chunk) noexcept {
  try {
    for (const Event& event : inputs_) event.synchronize();  // ready already: rethrows its stream's error
    stage.run(chunk);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

}  // namespace tutti
