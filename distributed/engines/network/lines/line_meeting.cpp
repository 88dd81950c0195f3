// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/line_meeting.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/network/lines/socket_line.h>
#include <tutti/distributed/engines/network/lines/socket_watch.h>

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <random>
#include <utility>

namespace tutti {

namespace {

using Clock = std::chrono::steady_clock;
using Proof = LineHandshake::Proof;
using Step = LineHandshake::Step;

constexpr std::size_t kMostWaiting = 64;  // connections of who has proved nothing yet
constexpr std::size_t kMostTaken = 16;    // new connections between two looks at the others
constexpr std::chrono::milliseconds kHandshake{2'000};
constexpr std::chrono::milliseconds kNextTry{20};  // until a process that does not answer is called again

struct Answer {
  LineHello hello;
  Proof proof;
};

/// One connection until both sides have proved themselves.
struct Handshake {
  enum class State : std::uint8_t {
    connecting,        // caller: the connection is on its way
    awaiting_answer,   // caller
    awaiting_confirm,  // caller
    awaiting_hello,    // called
    awaiting_proof,    // called
  };
  OwnedDescriptor connection;
  State state;
  Clock::time_point deadline;
  std::uint32_t called_rank = 0;  // whom the caller has called
  LineHello caller{};
  LineHello called{};
  std::array<std::byte, sizeof(Answer)> received{};
  std::size_t size = 0;  // of what was received
};

template <class T> bool send_whole(int socket, const T& value) {
  return ::send(socket, &value, sizeof value, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value);
}

// None: it is not all there. Throws std::errc for a connection that has ended.
enum class Got : std::uint8_t { nothing_yet, all, end };
template <class T> Got receive_whole(Handshake& each, T& value) {
  static_assert(sizeof value <= sizeof each.received);
  while (each.size < sizeof value) {
    const ssize_t count = recv(each.connection.get(), each.received.data() + each.size, sizeof value - each.size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Got::nothing_yet;
    if (count <= 0) return Got::end;
    each.size += static_cast<std::size_t>(count);
  }
  std::memcpy(&value, each.received.data(), sizeof value);
  each.size = 0;
  return Got::all;
}

/// One process's side of a meeting: it calls the ranks below it and is called by those above.
class Meeting {
 public:
  Meeting(const NetworkMeeting& meeting, const DataDoor& door, std::size_t piece_bytes, bool encrypts)
      : meeting_(meeting),
        door_(door),
        piece_bytes_(piece_bytes),
        encrypts_(encrypts),
        handshake_(meeting.key, meeting.epoch),
        lines_(meeting.places.size()),
        calls_(meeting.places.size()),
        next_call_(meeting.places.size()) {}

  std::vector<PeerLines> run(std::chrono::milliseconds patience, const std::function<void()>& look_around) {
    const auto deadline = Clock::now() + patience;
    while (!complete()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) raise_missing(patience);
      if (look_around) look_around();
      call_lower_ranks();
      wait_for_news(std::min(left, kNextTry));
      for (auto& of_process : calls_)
        for (auto& call : of_process)
          if (call && is_over(*call)) call.reset();
      hear_callers();
    }
    return std::move(lines_);
  }

 private:
  std::size_t place_of(std::uint32_t rank) const {
    const auto found = std::ranges::find(meeting_.places, static_cast<int>(rank), &NetworkMeeting::Place::rank);
    return static_cast<std::size_t>(found - meeting_.places.begin());
  }
  bool has_all(std::size_t place) const {
    return meeting_.places[place].rank == meeting_.rank ||
           std::ranges::all_of(lines_[place], [](const auto& line) { return line != nullptr; });
  }
  bool complete() const {
    for (std::size_t place = 0; place < lines_.size(); ++place)
      if (!has_all(place)) return false;
    return true;
  }

  LineHello hello(Lane lane) const { return LineHandshake::hello(meeting_.rank, lane, piece_bytes_, encrypts_); }

  void call_lower_ranks() {
    for (std::size_t place = 0; meeting_.places[place].rank < meeting_.rank; ++place) {
      if (has_all(place) || Clock::now() < next_call_[place]) continue;
      next_call_[place] = Clock::now() + kNextTry;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (lines_[place][lane] || calls_[place][lane]) continue;
        OwnedDescriptor connection = DataDoor::call(meeting_.places[place].address, meeting_.places[place].port);
        if (!connection) continue;
        calls_[place][lane].emplace(
            Handshake{std::move(connection), Handshake::State::connecting, Clock::now() + kHandshake});
        calls_[place][lane]->called_rank = static_cast<std::uint32_t>(meeting_.places[place].rank);
        calls_[place][lane]->caller = hello(static_cast<Lane>(lane));
      }
    }
  }

  void wait_for_news(std::chrono::milliseconds most) {
    std::vector<pollfd> sockets{{door_.descriptor(), POLLIN, 0}};
    const auto add = [&](const Handshake& each) {
      const bool connecting = each.state == Handshake::State::connecting;
      sockets.push_back({each.connection.get(), static_cast<short>(connecting ? POLLOUT : POLLIN), 0});
    };
    for (const auto& of_process : calls_)
      for (const auto& call : of_process)
        if (call) add(*call);
    for (const Handshake& caller : callers_) add(caller);
    poll(sockets.data(), sockets.size(), static_cast<int>(most.count()));
  }

  // Strangers that say nothing make room for those who come later: any of them, so that a flood of them does not keep
  // out who needs a while for its first words.
  void hear_callers() {
    for (std::size_t taken = 0; taken < kMostTaken; ++taken) {
      OwnedDescriptor connection = door_.accept();
      if (!connection) break;
      if (callers_.size() == kMostWaiting) make_room();
      callers_.push_back(Handshake{std::move(connection), Handshake::State::awaiting_hello, Clock::now() + kHandshake});
    }
    std::erase_if(callers_, [this](Handshake& each) { return is_over(each); });
  }

  void make_room() {
    std::vector<std::list<Handshake>::iterator> silent;
    for (auto each = callers_.begin(); each != callers_.end(); ++each)
      if (each->state == Handshake::State::awaiting_hello) silent.push_back(each);
    callers_.erase(silent.empty() ? callers_.begin() : silent[random_() % silent.size()]);
  }

  // Goes on with a handshake as far as that is possible now. True: it is over, well or not.
  bool is_over(Handshake& each) {
    for (;;) {
      const Handshake::State before = each.state;
      if (!advance(each)) return true;
      if (each.state == before) return Clock::now() > each.deadline;
    }
  }

  // False: it is over. Who ends a connection is called again.
  bool advance(Handshake& each) {
    switch (each.state) {
      case Handshake::State::connecting: return say_hello(each);
      case Handshake::State::awaiting_answer: return hear_answer(each);
      case Handshake::State::awaiting_confirm: return hear_confirmation(each);
      case Handshake::State::awaiting_hello: return hear_hello(each);
      case Handshake::State::awaiting_proof: break;
    }
    return hear_proof(each);
  }

  bool say_hello(Handshake& each) {
    pollfd socket{each.connection.get(), POLLOUT, 0};
    if (poll(&socket, 1, 0) <= 0) return true;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return false;
    each.state = Handshake::State::awaiting_answer;
    return send_whole(socket.fd, each.caller);
  }
  bool hear_answer(Handshake& each) {
    Answer answer;
    const Got got = receive_whole(each, answer);
    if (got != Got::all) return got == Got::nothing_yet;
    each.called = answer.hello;
    if (each.called.rank != each.called_rank || each.called.lane != each.caller.lane) return false;
    if (!LineHandshake::equal(answer.proof, handshake_.proof(Step::called_proves, each.caller, each.called)))
      return false;
    if (!send_whole(each.connection.get(), handshake_.proof(Step::caller_proves, each.caller, each.called)))
      return false;
    check_options(each.called);
    each.state = Handshake::State::awaiting_confirm;
    return true;
  }
  bool hear_confirmation(Handshake& each) {
    Proof proof;
    const Got got = receive_whole(each, proof);
    if (got != Got::all) return got == Got::nothing_yet;
    if (LineHandshake::equal(proof, handshake_.proof(Step::called_confirms, each.caller, each.called)))
      take(each, place_of(each.called.rank), true);
    return false;
  }

  bool hear_hello(Handshake& each) {
    const Got got = receive_whole(each, each.caller);
    if (got != Got::all) return got == Got::nothing_yet;
    const LineHello& caller = each.caller;
    if (caller.magic != LineHello::kMagic || static_cast<std::size_t>(caller.lane) >= kLanes ||
        static_cast<int>(caller.rank) <= meeting_.rank || place_of(caller.rank) == lines_.size())
      return false;
    each.called = hello(caller.lane);
    each.state = Handshake::State::awaiting_proof;
    return send_whole(each.connection.get(),
                      Answer{each.called, handshake_.proof(Step::called_proves, caller, each.called)});
  }
  // A process whose first try was lost may come again, as long as the meeting lasts.
  bool hear_proof(Handshake& each) {
    Proof proof;
    const Got got = receive_whole(each, proof);
    if (got != Got::all) return got == Got::nothing_yet;
    if (!LineHandshake::equal(proof, handshake_.proof(Step::caller_proves, each.caller, each.called))) return false;
    check_options(each.caller);
    if (send_whole(each.connection.get(), handshake_.proof(Step::called_confirms, each.caller, each.called)))
      take(each, place_of(each.caller.rank), false);
    return false;
  }

  void check_options(const LineHello& other) const {
    const std::string text = LineHandshake::difference(hello(other.lane), other);
    if (!text.empty()) raise<SyncError>("[network] processes of one group have different options: {}", text);
  }

  void take(Handshake& each, std::size_t place, bool called_them) {
    const FrameCipher::Kind kind = LineHandshake::cipher_of(each.caller, each.called);
    const FrameCipher::Key of_caller = handshake_.proof(Step::key_of_caller, each.caller, each.called);
    const FrameCipher::Key of_called = handshake_.proof(Step::key_of_called, each.caller, each.called);
    lines_[place][static_cast<std::size_t>(each.caller.lane)] = std::make_unique<SocketLine>(
        std::move(each.connection), kind, called_them ? of_caller : of_called, called_them ? of_called : of_caller);
  }

  [[noreturn]] void raise_missing(std::chrono::milliseconds patience) const {
    std::vector<int> missing;
    for (std::size_t place = 0; place < lines_.size(); ++place)
      if (!has_all(place)) missing.push_back(meeting_.places[place].rank);
    raise<SyncError>("[network] rank {} waited {} ms in epoch {} for the connections of rank {}", meeting_.rank,
                     patience.count(), meeting_.epoch, fmt::join(missing, ", "));
  }

  const NetworkMeeting& meeting_;
  const DataDoor& door_;
  std::size_t piece_bytes_;
  bool encrypts_;
  LineHandshake handshake_;
  std::vector<PeerLines> lines_;                                     // by place
  std::vector<std::array<std::optional<Handshake>, kLanes>> calls_;  // by place
  std::vector<Clock::time_point> next_call_;                         // by place
  std::list<Handshake> callers_;                                     // oldest first
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace

GroupLines connect_lines(const NetworkMeeting& meeting, const DataDoor& door, std::size_t piece_bytes, bool encrypts,
                         std::chrono::milliseconds patience, const std::function<void()>& look_around) {
  const auto ranks_ascend = [](const auto& one, const auto& next) { return one.rank >= next.rank; };
  if (std::ranges::adjacent_find(meeting.places, ranks_ascend) != meeting.places.end() ||
      std::ranges::find(meeting.places, meeting.rank, &NetworkMeeting::Place::rank) == meeting.places.end())
    raise<SyncError>("[network] ranks must ascend and have rank {} among them", meeting.rank);
  return {Meeting(meeting, door, piece_bytes, encrypts).run(patience, look_around), std::make_unique<SocketWatch>()};
}

}  // namespace tutti
