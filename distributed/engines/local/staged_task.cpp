// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/local/staged_task.h>

#include <tutti/distributed/threads/spinning_wait.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

std::int64_t front(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed & 0xFFFFFFFFU); }
std::int64_t back(std::uint64_t claimed) { return static_cast<std::int64_t>(claimed >> 32U); }

}  // namespace

bool StagedTask::Share::has_unclaimed() const {
  const std::uint64_t now = claimed.load(std::memory_order_relaxed);
  return begin + front(now) + back(now) < end;
}

std::int64_t StagedTask::Share::claim(bool from_front) {
  std::uint64_t now = claimed.load(std::memory_order_relaxed);
  while (begin + front(now) + back(now) < end)
    if (claimed.compare_exchange_weak(now, now + (from_front ? 1 : std::uint64_t{1} << 32U), std::memory_order_relaxed))
      return from_front ? begin + front(now) : end - 1 - back(now);
  return -1;
}

StagedTask::StagedTask(std::vector<Event> inputs, std::span<const Device> devices, std::span<const std::int64_t> chunks,
                       Drop drop)
    : inputs_(std::move(inputs)), devices_(devices.size()), drop_(drop), stages_(chunks.size()) {
  std::erase_if(inputs_, [](const Event& event) { return !event.recorded(); });
  std::ranges::copy(devices, devices_.begin());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    Stage& stage = stages_[i];
    stage.chunks = chunks[i];
    const auto shares = static_cast<std::int64_t>(devices.size());
    const std::int64_t count = shares == 0 || stage.chunks < shares ? 1 : shares;
    stage.shares.set_size(static_cast<std::size_t>(count));
    for (std::int64_t share = 0; share < count; ++share) {
      stage.shares[static_cast<std::size_t>(share)].begin = stage.chunks * share / count;
      stage.shares[static_cast<std::size_t>(share)].end = stage.chunks * (share + 1) / count;
    }
  }
  remaining_.store(stages_[0].chunks, std::memory_order_relaxed);
}

void StagedTask::help(Device device) {
  if (!finished() && ready()) run_all(device);
}

// Blocking is safe once nothing of the task can be claimed: other threads are running what is left of it, or its inputs
// are late and the worker takes it when they are there. A stage that ends wakes those who wait, and whoever wakes takes
// what nobody else has begun of the next.
void StagedTask::join(Device device) {
  for (std::uint32_t now; (now = progress()) != kFinished;) {
    if (ready()) run_all(device);
    if (inputs_ready() && progress() == now && !gate_open(now))
      wait_for_gate(now);
    else if (!spin_until([&] { return progress() != now; }))
      wait_past(now);
  }
  if (error()) std::rethrow_exception(error());
}

// Nobody else may come by: two engines, each of which waits for the other's task, and a destructor that only waits.
void StagedTask::wait_past(std::uint32_t progress) noexcept {
  try {
    if (inputs_ready()) {
      wait_for_gate(progress);
      run_all({});
    }
  } catch (...) {
    // an input cannot be asked: who finds it late waits for it, and its error becomes the task's
  }
  EngineTask::wait_past(progress);
}

bool StagedTask::inputs_ready() const {
  return std::all_of(inputs_.begin(), inputs_.end(), [](const Event& event) { return event.ready(); });
}

bool StagedTask::ready() const {
  const std::uint32_t stage = progress();
  return inputs_ready() && (stage == kFinished || gate_open(stage));
}

void StagedTask::wait_for_inputs() const noexcept {
  for (const Event& event : inputs_) try {
      event.synchronize();
    } catch (...) {
      // seen again by run_chunk
    }
}

std::size_t StagedTask::place_of(Device device) const {
  return static_cast<std::size_t>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
}

bool StagedTask::has_unclaimed(const Stage& stage, std::optional<std::size_t> place) const {
  if (place) return *place < devices_.size() && stage.share_of(*place).has_unclaimed();
  return std::any_of(stage.shares.begin(), stage.shares.end(), [](const Share& each) { return each.has_unclaimed(); });
}

bool StagedTask::has_unclaimed_chunks(std::optional<Device> device) const {
  const std::uint32_t stage = progress();
  return stage != kFinished && has_unclaimed(stages_[stage], device ? std::optional(place_of(*device)) : std::nullopt);
}

bool StagedTask::may_have_more(std::optional<Device> device) const {
  const std::uint32_t stage = progress();
  if (stage == kFinished) return false;
  const auto place = device ? std::optional(place_of(*device)) : std::nullopt;
  return (stage + 1 < stages_.size() && place != devices_.size()) || has_unclaimed(stages_[stage], place);
}

void StagedTask::run(Device device) {
  const std::size_t own = place_of(device);
  if (own < devices_.size()) run_claimed([&](Stage& stage) { return stage.share_of(own).claim(true); });
}

void StagedTask::run_all(std::optional<Device> device) {
  if (device) run(*device);  // what is done is counted before others' claims, on their cores, are looked at
  const std::size_t own = device ? place_of(*device) : devices_.size();
  run_claimed([&](Stage& stage) -> std::int64_t {
    if (own < devices_.size())
      if (const std::int64_t chunk = stage.share_of(own).claim(true); chunk >= 0) return chunk;
    for (Share& share : stage.shares)
      if (const std::int64_t chunk = share.claim(false); chunk >= 0) return chunk;
    return -1;
  });
}

// Chunks of a stage that is over are all claimed: a thread that comes late finds none. Once a thread has counted what
// it did, another one may end the stage.
template <class Claim> void StagedTask::run_claimed(Claim claim) {
  for (std::uint32_t stage; (stage = progress()) != kFinished;) {
    if (!gate_open(stage)) return;
    Stage& current = stages_[stage];
    std::int64_t chunk = claim(current);
    if (chunk < 0) {
      if (progress() == stage) return;
      continue;
    }
    const auto start = Clock::now();
    std::int64_t done = 0;
    for (; chunk >= 0; chunk = claim(current), ++done) try_chunk(stage, chunk);
    add_busy(Clock::now() - start);
    if (remaining_.fetch_sub(done, std::memory_order_acq_rel) == done) end_stage(stage);
  }
}

// Called by the thread that ended the stage's last chunk: no other touches the failure, or counts chunks, any more.
void StagedTask::end_stage(std::uint32_t stage) {
  stage_ended(stage, failure_);
  if (failure_ || stage + 1 == stages_.size()) return end(std::move(failure_));
  remaining_.store(stages_[stage + 1].chunks, std::memory_order_relaxed);
  advance(stage + 1);
}

// Whoever calls this holds a reference to the task.
void StagedTask::end(std::exception_ptr error) {
  if (drop_ == Drop::after_finish) finish(error);
  drop_chunks();
  if (drop_ == Drop::before_finish) finish(error);
}

void StagedTask::try_chunk(std::size_t stage, std::int64_t chunk) noexcept {
  try {
    for (const Event& event : inputs_) event.synchronize();  // ready already: rethrows its stream's error
    run_chunk(stage, chunk);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

namespace {

std::vector<std::int64_t> chunks_of(const std::vector<WorkStage>& stages) {
  std::vector<std::int64_t> chunks;
  for (const WorkStage& stage : stages) chunks.push_back(stage.chunks);
  return chunks;
}

}  // namespace

FunctionTask::FunctionTask(std::vector<Event> inputs, std::span<const Device> devices, std::vector<WorkStage> stages)
    : StagedTask(std::move(inputs), devices, chunks_of(stages), Drop::before_finish), stages_(std::move(stages)) {}

}  // namespace tutti
