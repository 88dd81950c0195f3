// SPDX-License-Identifier: Apache-2.0
// What others call; the thread's side is line_thread.cpp.
#include <tutti/distributed/engines/network/lines/network_lines.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/threads/spinning_wait.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kSentAtOnce = 512 << 10;  // bytes that whoever has them sends itself

}  // namespace

BlockWindow::Block BlockWindow::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    Block block = std::move(free_.back());
    free_.pop_back();
    return block;
  }
  refused_ = left_ == 0;
  if (refused_) return nullptr;
  --left_;
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

bool BlockWindow::give_back(Block block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(block));
  return std::exchange(refused_, false);
}

NetworkLines::NetworkLines(GroupLines group, Settings settings)
    : settings_(std::move(settings)),
      place_(static_cast<std::size_t>(std::ranges::find(settings_.ranks, settings_.rank) - settings_.ranks.begin())),
      watch_(std::move(group.watch)) {
  for (std::size_t place = 0; place < group.lines.size(); ++place) {
    auto& peer = peers_.emplace_back();
    if (place == place_) continue;
    peer = std::make_unique<NetworkPeer>();
    peer->lines = std::move(group.lines[place]);
    for (NetworkPeer::Incoming& in : peer->in) in.window.set_size(settings_.window_pieces);
  }
  thread_ = start_thread<SyncError>("network", [this] { run(); });
}

NetworkLines::~NetworkLines() {
  stopping_.store(true);
  parked_.ring();
  wake();
  thread_.join();
}

std::shared_ptr<NetworkExchange> NetworkLines::find(Sequence sequence, std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find({sequence, number});
  return found == open_.end() ? nullptr : found->second;
}

void NetworkLines::open(const std::shared_ptr<NetworkExchange>& exchange) {
  {
    const std::lock_guard lock(mutex_);
    open_.emplace(std::pair(exchange->sequence(), exchange->number()), exchange);
  }
  order_.launch(exchange);
  if (paused_.load(std::memory_order_seq_cst)) wake();
}

void NetworkLines::close(const NetworkExchange& exchange) noexcept {
  const std::lock_guard lock(mutex_);
  open_.erase({exchange.sequence(), exchange.number()});
}

void NetworkLines::slices_ready(const NetworkExchange& exchange, std::uint32_t ready) {
  order_.ready(exchange, ready, [this](const SendOrder::Turn& turn) { put_slices(turn); });
}

void NetworkLines::put_slices(const SendOrder::Turn& turn) {
  const auto& exchange = turn.exchange;
  const Lane lane = exchange->sequence() == Sequence::round ? Lane::round : Lane::users;
  for (std::size_t i = 1; i < size(); ++i) {
    const std::size_t place = (place_ + i) % size();
    FrameLine& line = *peers_[place]->lines[static_cast<std::size_t>(lane)];
    FrameHead head{FrameHead::Kind::announcement, exchange->sequence(), 0, exchange->number(), 0, 0};
    if (turn.begin == 0) {
      std::vector<std::byte> told = bytes_of(exchange->announcement());
      head.bytes = static_cast<std::uint32_t>(told.size());
      line.put({.head = head, .own = std::move(told)});
    }
    head.kind = FrameHead::Kind::slices;
    for (head.piece = turn.begin; head.piece < turn.end; ++head.piece) {
      auto parts = exchange->slices_for(place, head.piece);
      head.bytes = 0;
      for (const auto part : parts) head.bytes += static_cast<std::uint32_t>(part.size());
      line.put({.head = head, .parts = std::move(parts), .gone = &exchange->peer(place).slices_out, .keep = exchange});
    }
    flush(*peers_[place], lane, kSentAtOnce);
  }
}

void NetworkLines::send_results(const std::shared_ptr<NetworkExchange>& exchange, std::uint32_t piece) {
  const std::span<const std::byte> results = exchange->results_of(place_, piece);
  const FrameHead head{FrameHead::Kind::results,
                       exchange->sequence(),
                       0,
                       exchange->number(),
                       piece,
                       static_cast<std::uint32_t>(results.size())};
  for (std::size_t i = 1; i < size(); ++i) {
    const std::size_t place = (place_ + i) % size();
    NetworkPeer& peer = *peers_[place];
    peer.lines[static_cast<std::size_t>(Lane::results)]->put(
        {.head = head, .parts = {results}, .gone = &exchange->peer(place).results_out, .keep = exchange});
    flush(peer, Lane::results, kSentAtOnce);
  }
}

// What the kernel has no room for the thread sends. A line that is broken it finds out by itself.
void NetworkLines::flush(NetworkPeer& peer, Lane lane, std::size_t most) {
  bool counted = false;
  const FrameLine::Flow flow = peer.lines[static_cast<std::size_t>(lane)]->send(most, counted);
  if (counted) bell_.ring();
  if (flow != FrameLine::Flow::idle || (counted && waiting_.load() > 0)) wake();
}

void NetworkLines::take_back(NetworkExchange& exchange, std::uint32_t piece) {
  const std::size_t lane = static_cast<std::size_t>(exchange.sequence());
  bool refused = false;
  for (std::size_t place = 0; place < size(); ++place)
    if (place != place_)
      if (auto& block = exchange.peer(place).blocks[piece])
        refused |= peers_[place]->in[lane].window.give_back(std::move(block));
  if (refused) wake();
}

bool NetworkLines::all_reached(const Reached& reached) const {
  if (let_go_.load(std::memory_order_seq_cst)) return true;
  for (std::size_t place = 0; place < size(); ++place)
    if (place != place_ && !reached(place)) return false;
  return true;
}

void NetworkLines::wait(const Reached& reached, const Progress& progress, bool serves,
                        const std::function<std::string()>& what, const std::function<void()>& help) noexcept {
  const auto over = [&] { return all_reached(reached); };
  serves |= watch_->polls();
  if (over()) return;
  help();
  if (!serves && settings_.spins ? spin_until(over) : over()) return;
  auto since = Clock::now();
  std::uint64_t come = come_so_far(reached, progress);
  StandstillWatch watch(settings_.patience, settings_.patience, since);
  for (;;) {
    const std::uint32_t rings = bell_.rings();
    help();
    if (over()) return;
    watch.skip_to(Clock::now());
    serve_or_sleep(serves, rings, watch.period(), over);
    const auto now = Clock::now();
    const std::uint64_t before = std::exchange(come, come_so_far(reached, progress));
    if (watch.look(now) > Clock::duration::zero() || come > before) since = now;
    try {
      if (waits_for_gone(reached))
        abort(fmt::format("rank {} has gone, and has not {}", ranks_behind(reached), what()));
      else if (now - since >= settings_.patience && !over())
        abort(fmt::format("rank {} waited {} ms: rank {} has not {}", settings_.rank, settings_.patience.count(),
                          ranks_behind(reached), what()));
    } catch (...) {
      abort("a deadline has passed");  // no memory for the names
    }
  }
}

// One of those who wait serves the lines; the thread makes room for it. Whoever sleeps may serve next.
void NetworkLines::serve_or_sleep(bool serves, std::uint32_t rings, std::chrono::milliseconds most,
                                  const std::function<bool()>& over) noexcept {
  if (!serves || aborted_.load(std::memory_order_seq_cst)) return bell_.sleep(rings, most);
  if (waiting_.fetch_add(1) > 0) {
    waiting_.fetch_sub(1);
    return bell_.sleep(rings, most);
  }
  {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) {
      wake();
      turn.lock();
    }
    if (!over()) serve_once(most);
    turns_.fetch_add(1);
  }
  waiting_.fetch_sub(1);
  bell_.ring();
  if (over()) parked_.ring();
}

std::string NetworkLines::ranks_behind(const Reached& reached) const {
  std::vector<int> behind;
  for (std::size_t place = 0; place < size(); ++place)
    if (place != place_ && !reached(place)) behind.push_back(rank(place));
  return fmt::format("{}", fmt::join(behind, ", "));
}

// Grows when somebody who is behind comes on, and not when somebody arrives.
std::uint64_t NetworkLines::come_so_far(const Reached& reached, const Progress& progress) const {
  std::uint64_t come = 0;
  for (std::size_t place = 0; place < size(); ++place)
    if (place != place_ && !reached(place)) come += progress(place);
  return come;
}

// All that a process sent before it went has come when all of its lines have ended.
bool NetworkLines::waits_for_gone(const Reached& reached) const {
  for (std::size_t place = 0; place < size(); ++place)
    if (place != place_ && peers_[place]->left.load() && peers_[place]->ended.load() == kLanes && !reached(place))
      return true;
  return false;
}

void NetworkLines::abort(std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load()) return;
    try {
      reason_ = reason.substr(0, kMostTold);
    } catch (...) {
      reason_ = "no memory";
    }
    aborted_.store(true, std::memory_order_seq_cst);
  }
  parked_.ring();
  wake();
}

void NetworkLines::check() const {
  if (!aborted_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard lock(mutex_);
  raise<SyncError>("[network] epoch {} has ended: {}", settings_.epoch, reason_);
}

void NetworkLines::wait_let_go() noexcept {
  while (!let_go_.load(std::memory_order_seq_cst)) {
    const std::uint32_t rings = bell_.rings();
    if (!let_go_.load(std::memory_order_seq_cst)) bell_.sleep(rings, std::chrono::milliseconds(100));
  }
}

}  // namespace tutti
