// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/control_link.h>

#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace tutti {

namespace {

using namespace std::chrono_literals;
using Bytes = ProcessLink::Bytes;
using Line = ProcessLink::Line;

/// First byte of a message. The second is the line, but for an end.
enum class Kind : std::uint8_t {
  said = 1,  ///< to rank 0: bytes
  heard,     ///< from rank 0: for each rank its length, and then its bytes
  ended,     ///< an End
  who,       ///< to rank 0: which ranks are missing?
  missing,   ///< from rank 0: their numbers
  silent,    ///< to rank 0: nothing more will be said
};

struct EndHead {
  std::int64_t completed = 0;
  std::int32_t rank = 0;
  std::int32_t closed = 0;
};

constexpr auto kLook = 50ms;       // between two looks at `closed_`
constexpr auto kAskAgain = 250ms;  // between two questions who is missing
constexpr auto kAfterPause = 3s;   // what is lost so soon after a pause has taken this process for lost
constexpr std::size_t kMostText = 4096;

using Piece = std::span<const std::byte>;

Bytes message_of(Kind kind, std::span<const Piece> pieces) {
  std::size_t size = 1;
  for (const Piece piece : pieces) size += piece.size();
  Bytes message(size);
  message[0] = static_cast<std::byte>(kind);
  std::size_t at = 1;
  for (const Piece piece : pieces) {
    std::copy(piece.begin(), piece.end(), message.begin() + static_cast<std::ptrdiff_t>(at));
    at += piece.size();
  }
  return message;
}

Bytes message_of(Kind kind, Line line, Piece piece = {}) {
  const auto second = static_cast<std::byte>(line);
  const Piece pieces[] = {{&second, 1}, piece};
  return message_of(kind, pieces);
}

Bytes message_of(const ProcessLink::End& end) {
  const EndHead head{end.completed, end.rank, end.closed};
  const auto text = std::as_bytes(std::span(end.text.data(), std::min(end.text.size(), kMostText)));
  const Piece pieces[] = {std::as_bytes(std::span(&head, 1)), text};
  return message_of(Kind::ended, pieces);
}

// Of members, which are trusted, but not with sizes.
std::optional<ProcessLink::End> end_of(std::span<const std::byte> content) {
  EndHead head;
  if (content.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, content.data(), sizeof(head));
  const auto text = content.subspan(sizeof(head));
  return ProcessLink::End{head.rank, std::string(reinterpret_cast<const char*>(text.data()), text.size()),
                          head.completed, head.closed != 0};
}

std::optional<std::vector<Bytes>> all_words_of(std::span<const std::byte> content, std::size_t ranks) {
  std::vector<Bytes> words;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t length = 0;
    if (content.size() < sizeof(length)) return std::nullopt;
    std::memcpy(&length, content.data(), sizeof(length));
    content = content.subspan(sizeof(length));
    if (content.size() < length) return std::nullopt;
    words.emplace_back(content.begin(), content.begin() + length);
    content = content.subspan(length);
  }
  return content.empty() ? std::optional(std::move(words)) : std::nullopt;
}

}  // namespace

ControlLink::ControlLink(std::shared_ptr<ControlChannel> channel, Bytes mine,
                         std::chrono::steady_clock::time_point deadline)
    : channel_(std::move(channel)),
      words_(kLines, Words{SaidWords(static_cast<std::size_t>(channel_->size())), 0, {}}) {
  std::optional<End> end;
  hearing_ = {.said = [this](Line, std::vector<Bytes> words) { first_words_ = std::move(words); },
              .ended =
                  [&end](const End& each) {
                    if (!end) end = each;
                  }};
  say(Line::round, std::move(mine));
  for (bool is_over = false; first_words_.empty() && !end;) {
    if (const auto event = channel_->receive(deadline)) {
      take(*event);
      if (const auto* pause = std::get_if<OwnPause>(&*event))
        deadline += pause->length;  // nobody was late in that time
    } else if (std::exchange(is_over, true)) {
      raise<SyncError>("[sync] not all processes have made their group in time; rank {} waits for rank {}", rank(),
                       fmt::join(missing(Line::round), ", "));
    } else {
      deadline = std::chrono::steady_clock::now() + kLook;  // whose process has just stood still hears of it
    }
  }
  if (end) give_up(end->text);
  hearing_ = {};
}

// The others hear the same when the link goes, if it was made: one whose constructor throws says nothing.
void ControlLink::give_up(std::string reason) {
  given_up_for_ = reason;
  if (has_just_paused() && reason.find("stood still for") == std::string::npos)
    reason += fmt::format("; {}, this process, stood still for {:.3g} s before", name_of(rank()),
                          std::chrono::duration<double>(own_pause_).count());
  throw SyncError(reason);
}

bool ControlLink::has_just_paused() const {
  return own_pause_.count() > 0 && std::chrono::steady_clock::now() - own_pause_at_ < kAfterPause;
}

void ControlLink::require_all() {
  std::optional<End> end;
  hearing_ = {.said = {}, .ended = [&end](const End& each) {
                if (!end) end = each;
              }};  // nothing is said by all before `open`
  while (const auto event = channel_->receive(std::chrono::steady_clock::now())) take(*event);
  hearing_ = {};
  if (end) give_up(end->text);
}

void ControlLink::await_ends(std::chrono::milliseconds most) {
  hearing_ = {.said = {}, .ended = [](const End&) {}};
  const auto until = std::chrono::steady_clock::now() + most;
  while (static_cast<int>(ended_.size()) + 1 < channel_->size()) {
    const auto event = channel_->receive(until);
    if (!event) break;
    take(*event);
  }
  hearing_ = {};
}

void ControlLink::open(Hearing hearing) {
  hearing_ = std::move(hearing);
  thread_ = start_thread<SyncError>("sync, the link to other processes", [this] { run(); });
}

// A group that was never made, or not to its end, has failed for the others.
void ControlLink::close() noexcept {
  if (closed_.exchange(true)) return;
  if (thread_.joinable()) thread_.join();
  if (end_told_.load()) return;
  try {
    std::string text = given_up_for_;
    if (text.empty()) text = fmt::format("[sync] {} has given up its group", name_of(rank()));
    end({rank(), std::move(text), 0, false});
  } catch (...) {
    // the others see the end of the connection
  }
}

// Heartbeats wake nobody: it looks by itself whether it is to end.
void ControlLink::run() {
  while (!closed_.load()) try {
      if (const auto event = channel_->receive(std::chrono::steady_clock::now() + kLook)) take(*event);
      ask_who_is_missing();
    } catch (const std::exception& error) {
      on_failure_();
      return hearing_.ended({rank(), std::string("[sync] the control channel has failed: ") + error.what(), 0, false});
    }
}

void ControlLink::ask_who_is_missing() {
  const auto now = std::chrono::steady_clock::now();
  if (rank() == 0 || now - asked_ < kAskAgain) return;
  asked_ = now;
  for (std::size_t line = 0; line < kLines; ++line) {
    {
      const std::lock_guard lock(mutex_);
      if (words_[line].unheard == 0) continue;
    }
    channel_->send(0, message_of(Kind::who, static_cast<Line>(line)));
  }
}

void ControlLink::tell_who_is_missing(Line line, int asker) {
  std::vector<std::int32_t> ranks;
  {
    const std::lock_guard lock(mutex_);
    for (const int missing : words(line).said.missing(asker)) ranks.push_back(missing);
  }
  channel_->send(asker, message_of(Kind::missing, line, std::as_bytes(std::span(ranks))));
}

void ControlLink::say(Line line, Bytes bytes) {
  const bool collects = rank() == 0;
  const Bytes message = collects ? Bytes() : message_of(Kind::said, line, bytes);
  {
    const std::lock_guard lock(mutex_);
    if (collects)
      words(line).said.add(0, std::move(bytes));
    else
      ++words(line).unheard;
  }
  collects ? tell_complete(line) : channel_->send(0, message);
}

void ControlLink::be_silent(Line line) {
  if (rank() != 0) return channel_->send(0, message_of(Kind::silent, line));
  {
    const std::lock_guard lock(mutex_);
    words(line).said.silence(0);
  }
  tell_complete(line);
}

// On rank 0. Told and heard by one thread at a time, without the lock, in the order in which they became complete; this
// process may say more meanwhile.
void ControlLink::tell_complete(Line line) {
  std::unique_lock lock(mutex_);
  while (auto by_rank = words(line).said.take()) complete_.push_back({line, *std::move(by_rank)});
  if (telling_) return;
  telling_ = true;
  while (!complete_.empty()) {
    Complete next = std::move(complete_.front());
    complete_.pop_front();
    lock.unlock();
    try {
      hear(next.line, std::move(next.by_rank));
    } catch (...) {
      lock.lock();
      telling_ = false;
      throw;
    }
    lock.lock();
  }
  telling_ = false;
}

// On rank 0: tells the others, and hears itself.
void ControlLink::hear(Line line, std::vector<Bytes> words) {
  std::vector<std::uint32_t> lengths(words.size());
  const auto second = static_cast<std::byte>(line);
  std::vector<Piece> pieces{{&second, 1}};
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    lengths[rank] = static_cast<std::uint32_t>(words[rank].size());
    pieces.push_back(std::as_bytes(std::span(&lengths[rank], 1)));
    pieces.emplace_back(words[rank]);
  }
  const Bytes message = message_of(Kind::heard, pieces);
  tell_all(message);
  hearing_.said(line, std::move(words));
}

void ControlLink::tell_all(const Bytes& message) {
  for (int other = 1; other < channel_->size(); ++other) channel_->send(other, message);
}

std::vector<int> ControlLink::missing(Line line) const {
  const std::lock_guard lock(mutex_);
  return rank() == 0 ? words(line).said.missing(0) : words(line).missing;
}

void ControlLink::end(const End& end) noexcept {
  try {
    end_told_.store(true);
    if (!end.closed) on_failure_();
    End told = end;
    // It may be this process that is cut off, and whose silence the others see: nobody else is to be blamed for that.
    if (!end.closed && lost_rank_0_.load())
      told.text = fmt::format("[sync] {} hears nothing of {} any more", name_of(rank()), name_of(0));
    const Bytes message = message_of(told);
    rank() == 0 ? tell_all(message) : channel_->send(0, message);
  } catch (...) {
    // the others see the end of the connection
  }
}

void ControlLink::take(const ControlEvent& event) {
  if (const auto* message = std::get_if<ControlMessage>(&event)) return take(*message);
  if (const auto* pause = std::get_if<OwnPause>(&event)) {
    own_pause_ = pause->length;
    own_pause_at_ = std::chrono::steady_clock::now();
  }
  if (const auto* died = std::get_if<PeerDied>(&event)) return lose(died->rank, "has died", true);
  if (const auto* lost = std::get_if<PeerLost>(&event)) {
    const std::chrono::duration<double> silent = std::chrono::steady_clock::now() - lost->since;
    if (lost->rank == 0 && !ended_.contains(0)) lost_rank_0_.store(true);
    lose(lost->rank, lost->reason == PeerLost::Reason::silent
                         ? fmt::format("has said nothing for {:.3g} s (stopped, or cut off; ProcessOptions::silence)",
                                       silent.count())
                         : std::string("is lost: its connection has ended"));
  }
}

void ControlLink::take(const ControlMessage& message) {
  const auto content = std::span(message.bytes);
  if (!content.empty() && static_cast<Kind>(content[0]) == Kind::ended) {
    if (const auto end = end_of(content.subspan(1)); end && (rank() != 0 || end->rank == message.from))
      return hear_end(*end);
  } else if (take_of_line(message)) {
    return;
  }
  lose(message.from, "says what no process of this version says");
}

bool ControlLink::take_of_line(const ControlMessage& message) {
  const auto content = std::span(message.bytes);
  if (content.size() < 2 || static_cast<std::size_t>(content[1]) >= kLines) return false;
  const auto kind = static_cast<Kind>(content[0]);
  const auto line = static_cast<Line>(content[1]);
  const auto rest = content.subspan(2);
  if (rank() == 0) {
    if (kind == Kind::who) {
      tell_who_is_missing(line, message.from);
      return true;
    }
    if (kind != Kind::said && kind != Kind::silent) return false;
    {
      const std::lock_guard lock(mutex_);
      kind == Kind::said ? words(line).said.add(message.from, {rest.begin(), rest.end()})
                         : words(line).said.silence(message.from);
    }
    tell_complete(line);
    return true;
  }
  if (kind == Kind::missing) {
    std::vector<std::int32_t> ranks(rest.size() / sizeof(std::int32_t));
    if (!ranks.empty()) std::memcpy(ranks.data(), rest.data(), ranks.size() * sizeof(std::int32_t));
    const std::lock_guard lock(mutex_);
    if (words(line).unheard > 0) words(line).missing.assign(ranks.begin(), ranks.end());
    return true;
  }
  if (kind != Kind::heard) return false;
  auto by_rank = all_words_of(rest, static_cast<std::size_t>(channel_->size()));
  if (!by_rank) return false;
  {
    const std::lock_guard lock(mutex_);
    Words& known = words(line);
    if (known.unheard > 0) --known.unheard;
    known.missing.clear();
  }
  hearing_.said(line, *std::move(by_rank));
  return true;
}

// The first end of each process counts: one that has closed its group goes, and its connection with it.
void ControlLink::hear_end(const End& end) {
  if (!ended_.insert(end.rank).second) return;
  if (!end.closed) on_failure_();
  if (rank() == 0 && end.rank != 0) {
    const Bytes message = message_of(end);
    for (int other = 1; other < channel_->size(); ++other)
      if (other != end.rank) channel_->send(other, message);
  }
  hearing_.ended(end);
}

// Who was taken for lost while it stood still accuses nobody. Rank 0 names a death that is proven all the same.
void ControlLink::lose(int lost, const std::string& how, bool proven) {
  if (!(proven && rank() == 0) && has_just_paused())
    return hear_end({lost,
                     fmt::format("[sync] {} stood still for {:.3g} s, and the others have gone on without it",
                                 name_of(rank()), std::chrono::duration<double>(own_pause_).count()),
                     0, false});
  hear_end({lost, fmt::format("[sync] {} {}", name_of(lost), how), 0, false});
}

std::string ControlLink::place_of(int rank) const {
  const ControlMember& member = channel_->members().at(static_cast<std::size_t>(rank));
  return fmt::format("{} (pid {})", member.host, member.pid);
}

std::string ControlLink::name_of(int named) const { return fmt::format("rank {} on {}", named, place_of(named)); }

}  // namespace tutti
