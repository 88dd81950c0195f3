// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/loop.h>

#include <tutti/backend/raise.h>

#include <zmq.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::control {

using namespace std::chrono_literals;

namespace {

constexpr int kMessagesOfTurn = 256;                               // so that a flood of them delays no heartbeat
constexpr std::size_t kMostWaitingBytes = std::size_t{32} << 20U;  // for a peer, beside its connection's queue
constexpr auto kRetry = 2ms;                                       // wait before frames are tried again
constexpr auto kFarewell = 300ms;
constexpr auto kPublication = 50ms;
constexpr auto kProbe = 10ms;          // from the end of a connection to a look at whose it was
constexpr auto kProof = 50ms;          // from the end of rank 0's connection to its loss: a death is proven meanwhile
constexpr auto kLastWords = 100ms;     // from the proof of a death to its news: libzmq reads on meanwhile
constexpr auto kBetweenProbes = 50ms;  // however many connections end: strangers' do, too

}  // namespace

Loop::Loop(std::unique_ptr<Star> star, std::unique_ptr<DeathWatch> watch, const Hello& own,
           const ControlOptions& options, Mailbox& mailbox)
    : star_(std::move(star)),
      watch_(std::move(watch)),
      own_(own),
      options_(options),
      mailbox_(mailbox),
      admission_(own),
      clocks_(options.silence),
      standstill_(options.silence, options.silence),
      until_(Clock::now() + options.rendezvous) {}

void Loop::run() noexcept {
  std::string failure;
  try {
    while (turn()) {
    }
    return;
  } catch (const std::exception& error) {
    try {
      failure = error.what();
    } catch (...) {  // no memory for a text
    }
  } catch (...) {
  }
  mailbox_.fail(std::move(failure));
}

// One wait and all that it brought; false: the end.
bool Loop::turn() {
  wait();
  const Time now = Clock::now();
  notice_pause(now);
  const auto outgoing = mailbox_.take();
  if (!outgoing && ends(now)) return false;
  flush_all();
  if (outgoing) post_all(*outgoing);
  star_->serve();
  // Ends are noticed before messages are read, and told after: those that came before are read by then.
  all_read_ = read(now);
  notice_pause(Clock::now());  // also one within this turn is told before whom it has cost
  look_for_deaths(now);
  if (open_) {
    serve_members(now);
  } else if (!failed_) {
    gather(now);
  }
  publish(now);
  return !failed_ || is_refusing(now);
}

void Loop::wait() const {
  std::vector<zmq_pollitem_t> items;
  for (void* socket : star_->sockets()) items.push_back({socket, 0, ZMQ_POLLIN, 0});
  for (const int descriptor : {mailbox_.wake_descriptor(), watch_->descriptor()})
    items.push_back({nullptr, descriptor, ZMQ_POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_beat_ - Clock::now());
  auto timeout = std::clamp<std::chrono::milliseconds>(left, open_ ? 0ms : 10ms, standstill_.period());
  if (open_ && !all_read_) timeout = 0ms;
  if (has_waiting() || !dead_.empty()) timeout = std::min<std::chrono::milliseconds>(timeout, kRetry);
  if (zmq_poll(items.data(), static_cast<int>(items.size()), timeout.count()) < 0 && zmq_errno() != EINTR)
    raise<Error>("[control channel] poll: {}", zmq_strerror(zmq_errno()));
}

void Loop::notice_pause(Time now) {
  const auto pause = standstill_.look(now);
  if (pause <= Clock::duration::zero()) return;
  clocks_.skip(pause, now);
  until_ += pause;
  told_at_ += pause;
  mailbox_.deliver(OwnPause{pause});
}

void Loop::post_all(const std::deque<Mailbox::Outgoing>& messages) {
  for (const auto& message : messages) send(message.to, Data{message.bytes});
}

// True: nothing is left.
bool Loop::read(Time now) {
  Star::Incoming incoming;
  for (int i = 0; i < kMessagesOfTurn && (!failed_ || is_refusing(now)); ++i) {
    if (!star_->receive(incoming)) return true;
    take(incoming, now);
  }
  return false;
}

void Loop::take(Star::Incoming& incoming, Time now) {
  auto frame = decode(incoming.bytes);
  if (!frame) return void(++garbage_);
  if (take_unadmitted(incoming, *frame, now)) return;
  const auto peer = peers_.find(incoming.from.rank);
  if (!open_ || peer == peers_.end() || peer->second.origin.connection != incoming.from.connection)
    return void(++garbage_);
  take(peer->first, *frame, now);
}

void Loop::take(int rank, Frame& frame, Time now) {
  if (const auto silence = clocks_.heard(rank, now)) mailbox_.deliver(PeerHeard{rank, *silence});
  if (const auto* heartbeat = std::get_if<Heartbeat>(&frame)) {
    clocks_.progress(rank, heartbeat->progress, now);
  } else if (auto* data = std::get_if<Data>(&frame)) {
    if (!mailbox_.deliver(ControlMessage{rank, std::move(data->bytes)})) lose(rank, PeerLost::Reason::overflow);
  } else {
    ++garbage_;
  }
}

void Loop::serve_members(Time now) {
  notice_ended(now);
  if (now >= next_beat_) beat(now);
  for (const PeerLost& lost : clocks_.silent(now)) mailbox_.deliver(lost);
}

void Loop::beat(Time now) {
  last_beat_ = now;
  next_beat_ = now + options_.heartbeat;
  watch_->reach();
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_)
    if (peer.waiting.empty()) ranks.push_back(rank);  // what waits is a sign of life, too
  for (const int rank : ranks) send(rank, Heartbeat{mailbox_.progress.load(std::memory_order_relaxed)});
}

// On rank 0 nothing says whose connection has ended: the next heartbeat, to all, finds it. Elsewhere rank 0, if it is
// watched, may be dead: it is lost when that is not proven soon. Nobody is lost before it is heard out: its last words
// say why it has ended.
void Loop::notice_ended(Time now) {
  if (!all_read_) return;
  const bool has_ended = star_->take_ended();
  if (has_ended && is_coordinator())
    next_beat_ = std::min(next_beat_, std::max<Time>(last_beat_ + kBetweenProbes, now + kProbe));
  if (has_ended && !is_coordinator() && !line_ended_) line_ended_ = now;
  std::vector<int> lost;
  for (const auto& [rank, peer] : peers_)
    if (is_heard_out(rank) && !dead_.contains(rank)) lost.push_back(rank);
  for (const int rank : lost) {
    if (!is_coordinator() && watch_->watches(rank) && now < *line_ended_ + kProof)
      next_beat_ = std::min<Time>(next_beat_, *line_ended_ + kProof);
    else
      lose(rank, PeerLost::Reason::disconnected);
  }
}

// What came before the end of its connection is read.
bool Loop::is_heard_out(int rank) const {
  const auto peer = peers_.find(rank);
  if (peer == peers_.end()) return true;
  return all_read_ && (is_coordinator() ? peer->second.gone : line_ended_.has_value());
}

// The connection of a process that has died has ended, which libzmq may not have noticed yet, nor read what came
// before.
void Loop::look_for_deaths(Time now) {
  for (const int rank : watch_->look()) {
    if (failed_) return;
    if (open_) {
      dead_.emplace(rank, now);
      clocks_.end(rank);
      continue;
    }
    refuse(fmt::format("{} died during the rendezvous", admission_.name(static_cast<std::uint32_t>(rank))));
  }
  for (auto each = dead_.begin(); each != dead_.end();) {
    const auto [rank, since] = *each;
    const bool is_over = is_heard_out(rank) || now >= since + kLastWords;
    each = is_over ? dead_.erase(each) : std::next(each);
    if (is_over)
      bury(rank);
    else if (is_coordinator())
      send(rank, Heartbeat{});  // finds whether its connection has ended
  }
}

void Loop::bury(int rank) {
  peers_.erase(rank);
  if (!is_coordinator()) star_->close_line();
  mailbox_.deliver(PeerDied{rank});
}

void Loop::send(int rank, const Frame& frame) {
  const auto peer = peers_.find(rank);
  if (peer == peers_.end()) return;
  peer->second.waiting.push_back(encode(frame));
  peer->second.bytes += peer->second.waiting.back().size();
  flush(rank);
}

void Loop::flush(int rank) {
  Peer& peer = peers_.at(rank);
  while (!peer.waiting.empty()) {
    switch (star_->send(peer.origin, peer.waiting.front())) {
      case Socket::Sent::sent:
        peer.bytes -= peer.waiting.front().size();
        peer.waiting.pop_front();
        break;
      case Socket::Sent::gone: peer.gone = true; return;
      case Socket::Sent::full:
        // A line that has just ended takes nothing either.
        star_->serve();
        if ((is_coordinator() || star_->line_is_up()) && peer.bytes > kMostWaitingBytes)
          lose(rank, PeerLost::Reason::overflow);
        return;
    }
  }
}

void Loop::flush_all() {
  std::vector<int> ranks;  // flush() may take one out
  for (const auto& [rank, peer] : peers_)
    if (!peer.waiting.empty()) ranks.push_back(rank);
  for (const int rank : ranks) flush(rank);
}

bool Loop::has_waiting() const {
  return std::ranges::any_of(peers_, [](const auto& each) { return !each.second.waiting.empty(); });
}

// Told to stop: what waits has a moment more.
bool Loop::ends(Time now) {
  if (end_ == Time{}) end_ = now + kFarewell;
  return now >= end_ || (!has_waiting() && !is_refusing(now));
}

void Loop::lose(int rank, PeerLost::Reason reason) {
  notice_pause(Clock::now());
  if (dead_.contains(rank) || peers_.erase(rank) == 0) return;
  const Time heard = clocks_.last_heard(rank);
  clocks_.end(rank);
  if (!is_coordinator()) star_->close_line();
  mailbox_.deliver(PeerLost{rank, reason, heard});
}

void Loop::publish(Time now) {
  if (now < next_publication_) return;
  next_publication_ = now + kPublication;
  auto clocks = clocks_.read(now);
  for (PeerClock& each : clocks) each.watched = watch_->watches(each.rank);
  mailbox_.publish(std::move(clocks), {star_->strangers(), star_->garbage() + garbage_});
}

}  // namespace tutti::control
