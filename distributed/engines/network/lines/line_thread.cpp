// SPDX-License-Identifier: Apache-2.0
// The side of who serves the lines, mostly their thread: it alone receives.
#include <tutti/distributed/engines/network/lines/network_lines.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kSentByThread = 1 << 20;         // bytes of one line, before another one's turn
constexpr std::size_t kFramesInTurn = 8;               // number of one line's, before another one's turn
constexpr std::size_t kLargeFrame = 8 << 10;           // bytes that are better used, while near, than left for more
constexpr std::chrono::milliseconds kLook{50};         // between looks at connections that have ended
constexpr int kLooks = 20;                             // a millisecond apart, while others serve; then it sleeps
constexpr std::chrono::milliseconds kParked{100};      // the longest such sleep
constexpr std::chrono::milliseconds kToldWithin{300};  // time for an abort to go out
constexpr std::chrono::milliseconds kLeave{2'000};     // time for the last frames to go out
constexpr std::chrono::milliseconds kLetGo{5'000};     // time for others to take what lines cannot take back

constexpr std::size_t kResults = static_cast<std::size_t>(Lane::results);

}  // namespace

void NetworkLines::run() noexcept {
  serve();
  const std::lock_guard turn(turn_);  // whoever has it sees the end, and goes
  end();
}

// While others serve in its place, and for a little longer, as they mostly come again, the thread keeps away.
void NetworkLines::serve() noexcept {
  std::uint32_t seen = 0;
  for (int looks = 0;;) {
    const std::uint32_t rings = parked_.rings();
    if (aborted_.load(std::memory_order_seq_cst) || stopping_.load()) return;
    if (waiting_.load() > 0 || turns_.load() != seen) {
      seen = turns_.load();
      if (++looks <= kLooks || waiting_.load() == 0) {
        ::poll(nullptr, 0, 1);
      } else {
        parked_.sleep(rings, kParked);
        looks = 0;
      }
      continue;
    }
    const std::lock_guard turn(turn_);
    if (waiting_.load() == 0) serve_once(std::chrono::milliseconds(-1));
  }
}

void NetworkLines::serve_once(std::chrono::milliseconds most) noexcept {
  try {
    poll_lines(most);
    judge_broken();
  } catch (const std::exception& error) {
    try {
      abort(fmt::format("rank {}: {}", settings_.rank, error.what()));
    } catch (...) {
      abort("a process has no memory left");
    }
  } catch (...) {
    abort("a thread has failed");
  }
}

// `most`: below 0 for ever.
void NetworkLines::poll_lines(std::chrono::milliseconds most) {
  if (watch_->take_wake()) read_paused();
  std::vector<LineWatch::Watched> lines;
  std::vector<std::pair<std::size_t, std::size_t>> watched;
  bool waits_for_judgement = false;
  for (std::size_t place = 0; place < size(); ++place) {
    if (place == place_) continue;
    NetworkPeer& peer = *peers_[place];
    waits_for_judgement |= peer.broken_at.has_value();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto& in = peer.in[lane];
      const bool writes = in.open && peer.lines[lane]->has_more();
      const bool reads = in.open && !in.paused;
      if (!writes && !reads) continue;
      lines.push_back({.line = peer.lines[lane].get(), .reads = reads, .writes = writes});
      watched.emplace_back(place, lane);
    }
  }
  if (waits_for_judgement && (most < kLook.zero() || most > kLook)) most = kLook;
  if (watch_->wait(lines, most)) read_paused();
  for (std::size_t i = 0; i < lines.size() && !aborted_.load(); ++i) {
    const auto [place, lane] = watched[i];
    NetworkPeer& peer = *peers_[place];
    if (lines[i].can_write) {
      bool counted = false;
      (void)peer.lines[lane]->send(kSentByThread, counted);
      if (counted) bell_.ring();
    }
    if (lines[i].can_read && peer.in[lane].open && !peer.in[lane].paused) receive(place, lane);
  }
}

// Whoever wakes this thread has launched something, or given room: lines go on that were paused.
void NetworkLines::read_paused() {
  paused_.store(false, std::memory_order_seq_cst);
  for (std::size_t place = 0; place < size(); ++place)
    for (std::size_t lane = 0; place != place_ && lane < kLanes; ++lane)
      if (std::exchange(peers_[place]->in[lane].paused, false)) receive(place, lane);
}

void NetworkLines::receive(std::size_t place, std::size_t lane) {
  NetworkPeer::Incoming& in = peers_[place]->in[lane];
  FrameLine& line = *peers_[place]->lines[lane];
  if (in.told && !take_announcement(place, lane)) return;
  for (std::size_t frames = 0; frames < kFramesInTurn && in.open && !aborted_.load();) {
    switch (line.read()) {
      case FrameLine::Read::nothing_yet: return;
      case FrameLine::Read::head:
        if (!place_frame(place, lane)) return;
        break;
      case FrameLine::Read::frame:
        take_frame(place, lane);
        frames += watch_->polls() && line.head().bytes > kLargeFrame ? kFramesInTurn : 1;
        line.next();
        if (in.told && !take_announcement(place, lane)) return;
        break;
      case FrameLine::Read::end: return line_ended(place, lane, "has ended");
      case FrameLine::Read::forged:
        return abort(
            fmt::format("what came from rank {} was changed on its way to rank {}", rank(place), settings_.rank));
    }
  }
}

void NetworkLines::refuse(std::size_t place, const FrameHead& head) const {
  raise<SyncError>("[network] rank {} sent what nobody waits for (frame {}, request {}, piece {}, {} bytes)",
                   rank(place), static_cast<int>(head.kind), head.number, head.piece, head.bytes);
}

// Gives the content of a frame its place. False: there is none yet.
bool NetworkLines::place_frame(std::size_t place, std::size_t lane) {
  NetworkPeer::Incoming& in = peers_[place]->in[lane];
  FrameLine& line = *peers_[place]->lines[lane];
  const FrameHead& head = line.head();
  const bool data = head.kind == FrameHead::Kind::slices || head.kind == FrameHead::Kind::results;
  if (!data) {
    const bool here = head.kind == FrameHead::Kind::announcement ? lane != kResults : lane == kResults;
    if (!here || head.bytes > kMostTold) refuse(place, head);
    in.text.resize(head.bytes);
    line.place(in.text);
    return true;
  }
  if (head.kind == FrameHead::Kind::results) {
    if (lane != kResults) refuse(place, head);
    const auto results = place_of_results(place, head);
    if (!results) return false;
    line.place(*results);
    return true;
  }
  if (lane == kResults || !in.exchange || head.number != in.number || static_cast<std::size_t>(head.sequence) != lane ||
      head.piece >= in.exchange->pieces_from(place) ||
      head.piece != in.exchange->peer(place).slices_in.load(std::memory_order_relaxed) ||
      head.bytes > settings_.piece_bytes || head.bytes != in.exchange->bytes_from(place, head.piece))
    refuse(place, head);
  std::byte* const memory = in.exchange->memory_for(place, head.piece);
  if (head.bytes > 0 && memory == nullptr && !in.block) {
    in.block = in.window.take(settings_.piece_bytes);
    in.paused = !in.block;
    if (in.paused) return false;
  }
  line.place({memory != nullptr ? memory : in.block.get(), head.bytes});
  return true;
}

// Where results lie there were slices, which have gone. None: that is not known yet.
std::optional<std::span<std::byte>> NetworkLines::place_of_results(std::size_t place, const FrameHead& head) {
  NetworkPeer::Incoming& in = peers_[place]->in[kResults];
  if (head.sequence > Sequence::users) refuse(place, head);
  in.exchange = find(head.sequence, head.number);
  if (!in.exchange || head.piece >= in.exchange->results()) refuse(place, head);
  const NetworkExchange::Peer& peer = in.exchange->peer(place);
  const auto have_gone = [&] { return peer.slices_out.load(std::memory_order_seq_cst) > head.piece; };
  if (!have_gone() && !peers_[place]->lines[static_cast<std::size_t>(head.sequence)]->all_counted() && !have_gone())
    return std::nullopt;
  if (!have_gone() || peer.results_in.load(std::memory_order_relaxed) != head.piece) refuse(place, head);
  const std::span<std::byte> results = in.exchange->results_of(place, head.piece);
  if (results.size() != head.bytes) refuse(place, head);
  return results;
}

void NetworkLines::take_frame(std::size_t place, std::size_t lane) {
  NetworkPeer::Incoming& in = peers_[place]->in[lane];
  const FrameHead& head = peers_[place]->lines[lane]->head();
  switch (head.kind) {
    case FrameHead::Kind::announcement: in.told = true; return;
    case FrameHead::Kind::slices: {
      NetworkExchange::Peer& peer = in.exchange->peer(place);
      if (in.block) peer.blocks[head.piece] = std::move(in.block);
      peer.slices_in.fetch_add(1, std::memory_order_seq_cst);
      if (head.piece + 1 == in.exchange->pieces_from(place)) in.exchange.reset();
      return bell_.ring();
    }
    case FrameHead::Kind::results:
      in.exchange->peer(place).results_in.fetch_add(1, std::memory_order_seq_cst);
      in.exchange.reset();
      return bell_.ring();
    case FrameHead::Kind::abort: {
      // One that is cut off accuses those who hear it, and whose word it is has to be seen.
      const std::string_view text(reinterpret_cast<const char*>(in.text.data()), in.text.size());
      return await_judgement(place, fmt::format("{}; told by rank {}", text, rank(place)));
    }
    case FrameHead::Kind::goodbye: peers_[place]->left.store(true); return bell_.ring();
  }
}

// False: this process has not launched it yet.
bool NetworkLines::take_announcement(std::size_t place, std::size_t lane) {
  NetworkPeer::Incoming& in = peers_[place]->in[lane];
  const auto sequence = static_cast<Sequence>(lane);
  const std::uint32_t number = in.number + 1;
  auto exchange = find(sequence, number);
  if (!exchange) {
    in.paused = true;
    paused_.store(true, std::memory_order_seq_cst);
    exchange = find(sequence, number);  // who launched it meanwhile has not seen that somebody waits
    if (!exchange) return false;
    in.paused = false;
  }
  const auto announcement = announcement_of(in.text);
  if (!announcement || in.exchange) raise<SyncError>("[network] rank {} announced what is none", rank(place));
  const bool lower = place < place_;
  const std::string text = lower ? difference(*announcement, rank(place), exchange->announcement(), settings_.rank)
                                 : difference(exchange->announcement(), settings_.rank, *announcement, rank(place));
  if (!text.empty()) {
    abort(
        fmt::format("reduction {} (\"{}\") is not the same for all: {}", number, exchange->announcement().name, text));
    return false;
  }
  exchange->check(*announcement, rank(place));
  in.told = false;
  in.number = number;
  exchange->peer(place).theirs = *announcement;
  exchange->peer(place).announced.store(true, std::memory_order_seq_cst);
  in.exchange = std::move(exchange);
  bell_.ring();
  return true;
}

// Why it has ended the process may have said on another line.
void NetworkLines::line_ended(std::size_t place, std::size_t lane, std::string_view how) {
  NetworkPeer& peer = *peers_[place];
  peer.in[lane].open = false;
  peer.ended.fetch_add(1);
  if (lane != kResults && peer.in[kResults].open) receive(place, kResults);
  bell_.ring();
  if (peer.broken_at) return;
  await_judgement(place, fmt::format("the connection of rank {} to rank {} {}", settings_.rank, rank(place), how));
}

// Somebody who knows more, as who holds the control channel, has the grace to say why it has ended. What the process
// says itself may come after the end of another of its lines, and stands before that.
void NetworkLines::await_judgement(std::size_t place, std::string reason) {
  NetworkPeer& peer = *peers_[place];
  if (peer.left.load() || aborted_.load()) return;
  if (!peer.broken_at) peer.broken_at = Clock::now();
  peer.how_broken = std::move(reason);
}

// The one that has ended first is the reason for the others.
void NetworkLines::judge_broken() {
  const NetworkPeer* first = nullptr;
  for (const auto& peer : peers_) {
    if (!peer || !peer->broken_at) continue;
    if (peer->left.load())
      peer->broken_at.reset();
    else if (first == nullptr || *peer->broken_at < *first->broken_at)
      first = peer.get();
  }
  if (first != nullptr && Clock::now() - *first->broken_at >= settings_.grace) abort(first->how_broken);
}

// No frame points to memory of requests any more when it lets go.
void NetworkLines::end() noexcept {
  const bool failed = aborted_.load();
  try {
    for (const auto& peer : peers_) {
      if (!peer) continue;
      OutgoingFrame last{};
      last.head.kind = failed ? FrameHead::Kind::abort : FrameHead::Kind::goodbye;
      if (failed) {
        const std::lock_guard lock(mutex_);
        const auto text = std::as_bytes(std::span(reason_));
        last.own.assign(text.begin(), text.end());
        last.head.bytes = static_cast<std::uint32_t>(text.size());
      }
      if (failed) {
        peer->lines[0]->cut_all();
        peer->lines[1]->cut_all();
        peer->lines[kResults]->cut(std::move(last));
      } else {
        peer->lines[kResults]->put(std::move(last));
      }
    }
  } catch (...) {
    for (const auto& peer : peers_)
      for (std::size_t lane = 0; peer && lane < kLanes; ++lane) peer->lines[lane]->cut_all();
  }
  if (failed) {
    order_.clear();
    let_go();
  }
  let_go_.store(failed, std::memory_order_seq_cst);
  bell_.ring();
  flush_all(!failed ? kLeave : watch_->polls() ? kLetGo : kToldWithin);
}

void NetworkLines::let_go() noexcept {
  const auto until = Clock::now() + kLetGo;
  for (;; std::this_thread::yield()) {
    bool has_let_go = true;
    for (const auto& peer : peers_)
      for (std::size_t lane = 0; peer && lane < kLanes; ++lane) has_let_go &= peer->lines[lane]->has_let_go();
    if (has_let_go) return;
    if (Clock::now() > until) break;
  }
  const std::lock_guard lock(mutex_);
  watch_->give_up(reason_);
}

void NetworkLines::flush_all(std::chrono::milliseconds most) noexcept {
  const auto until = Clock::now() + most;
  for (bool shut = false;; ::poll(nullptr, 0, 1)) {
    bool more = false;
    for (const auto& peer : peers_)
      for (std::size_t lane = 0; peer && lane < kLanes; ++lane) {
        if (!peer->in[lane].open) continue;
        bool counted = false;
        const FrameLine::Flow flow = peer->lines[lane]->send(kSentByThread, counted);
        if (flow == FrameLine::Flow::broken) peer->in[lane].open = false;
        more |= flow == FrameLine::Flow::waiting ||
                (shut && flow == FrameLine::Flow::idle && peer->lines[lane]->unsent() > 0);
      }
    if ((!more && shut) || Clock::now() > until) return;
    if (more || std::exchange(shut, true)) continue;
    for (const auto& peer : peers_)
      for (std::size_t lane = 0; peer && lane < kLanes; ++lane) peer->lines[lane]->shut();
  }
}

}  // namespace tutti
