// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/ring_task.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>

#include <optional>
#include <string>
#include <utility>

namespace tutti {

namespace {

struct Gate {
  RingPhase phase;
  RingNumber number;
};

// None: the step needs nobody. A slot that this process has released was done with by all.
std::optional<Gate> gate_of(std::size_t step, RingNumber number) {
  switch (step) {
    case 0: return Gate{RingPhase::released, number.before_in_slot()};
    case 1: return Gate{RingPhase::arrived, number};
    case 3: return Gate{RingPhase::done, number};
    default: return std::nullopt;
  }
}

}  // namespace

RingTask::RingTask(std::shared_ptr<SharedFlight> flight, RingNumber first, std::vector<Event> inputs,
                   std::span<const Device> devices, std::span<const std::int64_t> chunks)
    : StagedTask(std::move(inputs), devices, in_order(chunks), Drop::after_finish),
      first_(first),
      order_(order_of(chunks.size() / kSteps)),
      flight_(std::move(flight)) {}

std::vector<RingTask::Stage> RingTask::order_of(std::size_t pieces) {
  std::vector<Stage> order;
  order.reserve(pieces * kSteps);
  order.push_back({0, 0});
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    if (piece + 1 < pieces) order.push_back({piece + 1, 0});
    order.push_back({piece, 1});
    order.push_back({piece, 2});
    if (piece > 0) order.push_back({piece - 1, 3});
  }
  order.push_back({pieces - 1, 3});
  return order;
}

std::vector<std::int64_t> RingTask::in_order(std::span<const std::int64_t> chunks) {
  std::vector<std::int64_t> ordered;
  ordered.reserve(chunks.size());
  for (const auto [piece, step] : order_of(chunks.size() / kSteps)) ordered.push_back(chunks[piece * kSteps + step]);
  return ordered;
}

std::shared_ptr<SharedFlight> RingTask::flight() const {
  const std::lock_guard lock(mutex_);
  return flight_;
}

void RingTask::drop_chunks() noexcept {
  std::shared_ptr<SharedFlight> dropped;  // may be the last one: unmapped without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(flight_);
}

bool RingTask::gate_open(std::size_t stage) const {
  if (stage < open_.load(std::memory_order_acquire)) return true;
  const auto gate = gate_of(order_[stage].step, number(order_[stage].piece));
  if (!gate) return true;
  const auto flight = this->flight();
  if (flight && !flight->ring.reached(gate->phase, gate->number)) return false;
  std::size_t known = open_.load(std::memory_order_relaxed);
  while (known <= stage && !open_.compare_exchange_weak(known, stage + 1, std::memory_order_release)) {
  }
  return true;
}

void RingTask::wait_for_gate(std::size_t stage) noexcept {
  const auto gate = gate_of(order_[stage].step, number(order_[stage].piece));
  const auto flight = this->flight();
  if (!gate || !flight) return;
  flight->ring.wait(gate->phase, gate->number, [&] {
    try {
      flight->crew.help_all({});
    } catch (...) {
      // an input cannot be asked: its own task finds that out
    }
  });
}

void RingTask::run_chunk(std::size_t stage, std::int64_t chunk) {
  ring().check();
  const auto [piece, step] = order_[stage];
  switch (step) {
    case 0: return fill(piece, chunk);
    case 1: return look_up(piece);
    case 2: return combine(piece, chunk);
    default: return take_back(piece, chunk);
  }
}

void RingTask::stage_ended(std::size_t stage, const std::exception_ptr& failure) noexcept {
  const auto [piece, step] = order_[stage];
  if (failure) try {
      return ring().abort(fmt::format("rank {}: {}", ring().rank(ring().place()), text_of(failure)));
    } catch (...) {
      return ring().abort("a process has no memory left");
    }
  switch (step) {
    case 0:
      announce(piece, ring().own_announcement(number(piece)));
      return ring().announce(RingPhase::arrived, number(piece));
    case 2: return ring().announce(RingPhase::done, number(piece));
    case 3: return ring().announce(RingPhase::released, number(piece));
    default: return;
  }
}

void RingTask::check_agreement(std::size_t piece) const {
  const Announcement& first = ring().announcement(0, number(piece));
  for (std::size_t place = 1; place < ring().size(); ++place) {
    const Announcement& other = ring().announcement(place, number(piece));
    const std::string text = difference(first, ring().rank(0), other, ring().rank(place));
    if (text.empty()) continue;
    const Announcement& own = ring().announcement(ring().place(), number(piece));
    raise<SyncError>("[shared_memory] reduction {} (\"{}\") is not the same for all: {}", number(piece).count(),
                     own.name, text);
  }
}

}  // namespace tutti
