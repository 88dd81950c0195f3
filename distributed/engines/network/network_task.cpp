// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_task.h>

#include <tutti/backend/process/error_text.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

// Of a task that is soon over: who waits for it serves the lines. Others sum while the thread receives what follows.
constexpr std::uint32_t kFewPieces = 8;

std::vector<std::int64_t> chunks_of(const std::vector<NetworkTask::Stage>& stages) {
  std::vector<std::int64_t> chunks;
  chunks.reserve(stages.size());
  for (const NetworkTask::Stage& stage : stages) chunks.push_back(stage.chunks);
  return chunks;
}

}  // namespace

NetworkTask::NetworkTask(std::shared_ptr<NetworkFlight> flight, std::shared_ptr<NetworkExchange> exchange,
                         std::vector<Stage> stages, std::vector<Event> inputs, std::span<const Device> devices)
    : StagedTask(std::move(inputs), devices, chunks_of(stages), Drop::after_finish),
      exchange_(std::move(exchange)),
      stages_(std::move(stages)),
      flight_(std::move(flight)) {}

void NetworkTask::open() { flight_->lines.open(exchange_); }

std::shared_ptr<NetworkFlight> NetworkTask::flight() const {
  const std::lock_guard lock(mutex_);
  return flight_;
}

void NetworkTask::drop_chunks() noexcept {
  std::shared_ptr<NetworkFlight> dropped;  // may be the last one: its lines end without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(flight_);
}

bool NetworkTask::reached(const Stage& stage, std::size_t place) const {
  const NetworkExchange::Peer& peer = exchange_->peer(place);
  const auto at = [](const std::atomic<std::uint32_t>& count) { return count.load(std::memory_order_seq_cst); };
  const auto came = [&] { return at(peer.slices_in) > std::min(stage.piece, exchange_->pieces_from(place) - 1); };
  switch (stage.kind) {
    case Stage::Kind::fill: return true;
    case Stage::Kind::look_up: return came() && at(peer.slices_out) > stage.piece;
    case Stage::Kind::combine: return came();
    case Stage::Kind::spread: return exchange_->results() == 0 || at(peer.results_in) > stage.piece;
    case Stage::Kind::rest: break;
  }
  const std::uint32_t all = exchange_->pieces_out();
  const std::uint32_t results = exchange_->results();
  return at(peer.slices_out) == all && at(peer.results_in) == results && at(peer.results_out) == results;
}

bool NetworkTask::gate_open(std::size_t stage) const {
  if (stages_[stage].kind == Stage::Kind::fill) return true;
  const auto flight = this->flight();
  return !flight || flight->lines.all_reached([&](std::size_t place) { return reached(stages_[stage], place); });
}

void NetworkTask::wait_for_gate(std::size_t stage) noexcept {
  const auto flight = this->flight();
  const Stage& now = stages_[stage];
  if (!flight || now.kind == Stage::Kind::fill) return;
  const auto what = [&] {
    const bool coming = now.kind == Stage::Kind::look_up || now.kind == Stage::Kind::combine;
    return fmt::format("{} reduction {}", coming ? "come to" : "done its share of", exchange_->number());
  };
  const bool serves = exchange_->pieces_out() <= kFewPieces;
  const auto come = [&](std::size_t place) {
    const NetworkExchange::Peer& peer = exchange_->peer(place);
    std::uint32_t pieces = 0;
    for (const auto* each : {&peer.slices_in, &peer.results_in, &peer.slices_out, &peer.results_out})
      pieces += each->load(std::memory_order_relaxed);
    return pieces;
  };
  flight->lines.wait([&](std::size_t place) { return reached(now, place); }, come, serves, what,
                     [&] {
                       try {
                         flight->crew.help_all({});
                       } catch (...) {
                         // an input cannot be asked: its own task finds that out
                       }
                     });
}

void NetworkTask::run_chunk(std::size_t stage, std::int64_t chunk) {
  flight_->lines.check();
  run_stage(stages_[stage], chunk);
}

// Called by one thread. A task that has failed ends when no line uses its memory any more.
void NetworkTask::stage_ended(std::size_t stage, const std::exception_ptr& failure) noexcept {
  NetworkLines& lines = flight_->lines;
  const Stage& ended = stages_[stage];
  std::exception_ptr failed = failure;
  if (!failed) try {
      switch (ended.kind) {
        case Stage::Kind::fill:
          lines.slices_ready(*exchange_, std::min(ended.piece, exchange_->pieces_out() - 1) + 1);
          break;
        case Stage::Kind::look_up: break;
        case Stage::Kind::combine:
          if (exchange_->results() > 0) lines.send_results(exchange_, ended.piece == Stage::kLast ? 0 : ended.piece);
          if (ended.piece != Stage::kLast) lines.take_back(*exchange_, ended.piece);
          break;
        case Stage::Kind::spread: break;
        case Stage::Kind::rest: lines.close(*exchange_); break;
      }
      return;
    } catch (...) {
      failed = std::current_exception();
    }
  try {
    lines.abort(fmt::format("rank {}: {}", lines.rank(lines.place()), text_of(failed)));
  } catch (...) {
    lines.abort("a process has no memory left");
  }
  lines.close(*exchange_);
  lines.wait_let_go();
}

}  // namespace tutti
