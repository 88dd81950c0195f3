// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/control_link.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/start_thread.h>

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

/// First byte of a message.
enum class Kind : std::uint8_t {
  said = 1,  ///< to rank 0: bytes
  heard,     ///< from rank 0: for each rank its length, and then its bytes
  ended,     ///< an End
  who,       ///< to rank 0: which ranks are missing?
  missing,   ///< from rank 0: their numbers
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
    : channel_(std::move(channel)), said_(static_cast<std::size_t>(channel_->size())) {
  std::optional<End> end;
  hearing_ = {.said = [this](std::vector<Bytes> words) { first_words_ = std::move(words); },
              .ended = [&end](const End& first) { end = first; }};
  say(std::move(mine));
  while (first_words_.empty() && !end) {
    const auto event = channel_->receive(deadline);
    if (!event)
      raise<SyncError>("[sync] not all processes have made their group in time; rank {} waits for rank {}", rank(),
                       fmt::join(missing(), ", "));
    take(*event);
  }
  if (end) throw SyncError(end->text);
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
    end({rank(), fmt::format("[sync] {} has given up its group", name_of(rank())), 0, false});
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
      return hearing_.ended({rank(), std::string("[sync] the control channel has failed: ") + error.what(), 0, false});
    }
}

void ControlLink::ask_who_is_missing() {
  const auto now = std::chrono::steady_clock::now();
  if (rank() == 0 || now - asked_ < kAskAgain) return;
  asked_ = now;
  {
    const std::lock_guard lock(mutex_);
    if (said_[static_cast<std::size_t>(rank())].empty()) return;
  }
  channel_->send(0, message_of(Kind::who, {}));
}

void ControlLink::tell_who_is_missing(int asker) {
  std::vector<std::int32_t> ranks;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t other = 0; other < said_.size() && !said_[static_cast<std::size_t>(asker)].empty(); ++other)
      if (said_[other].empty()) ranks.push_back(static_cast<std::int32_t>(other));
  }
  const Piece piece = std::as_bytes(std::span(ranks));
  channel_->send(asker, message_of(Kind::missing, {&piece, 1}));
}

void ControlLink::say(Bytes bytes) {
  if (rank() == 0) return add(0, std::move(bytes));
  const Piece piece(bytes);
  const Bytes message = message_of(Kind::said, {&piece, 1});
  {
    const std::lock_guard lock(mutex_);
    said_[static_cast<std::size_t>(rank())].push_back(std::move(bytes));
  }
  channel_->send(0, message);
}

// On rank 0. Told and heard by whoever completes the words, without the lock: this process says nothing further before
// it has heard them, so that no others can be complete meanwhile.
void ControlLink::add(int from, Bytes bytes) {
  std::vector<Bytes> words;
  {
    const std::lock_guard lock(mutex_);
    said_[static_cast<std::size_t>(from)].push_back(std::move(bytes));
    for (const auto& said : said_)
      if (said.empty()) return;
    for (auto& said : said_) {
      words.push_back(std::move(said.front()));
      said.pop_front();
    }
  }
  std::vector<std::uint32_t> lengths(words.size());
  std::vector<Piece> pieces;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    lengths[rank] = static_cast<std::uint32_t>(words[rank].size());
    pieces.push_back(std::as_bytes(std::span(&lengths[rank], 1)));
    pieces.emplace_back(words[rank]);
  }
  const Bytes message = message_of(Kind::heard, pieces);
  tell_all(message);
  hearing_.said(std::move(words));
}

void ControlLink::tell_all(const Bytes& message) {
  for (int other = 1; other < channel_->size(); ++other) channel_->send(other, message);
}

std::vector<int> ControlLink::missing() const {
  const std::lock_guard lock(mutex_);
  if (rank() != 0) return missing_;
  std::vector<int> ranks;
  if (said_[0].empty()) return ranks;
  for (int other = 1; other < channel_->size(); ++other)
    if (said_[static_cast<std::size_t>(other)].empty()) ranks.push_back(other);
  return ranks;
}

void ControlLink::end(const End& end) noexcept {
  try {
    end_told_.store(true);
    const Bytes message = message_of(end);
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
    lose(lost->rank, lost->reason == PeerLost::Reason::silent
                         ? fmt::format("has said nothing for {:.3g} s (stopped, or cut off)", silent.count())
                         : std::string("is lost: its connection has ended"));
  }
}

void ControlLink::take(const ControlMessage& message) {
  const auto content = std::span(message.bytes);
  const auto kind = content.empty() ? Kind{} : static_cast<Kind>(content[0]);
  if (kind == Kind::said && rank() == 0) return add(message.from, {content.begin() + 1, content.end()});
  if (kind == Kind::heard && rank() != 0)
    if (auto words = all_words_of(content.subspan(1), said_.size())) {
      {
        const std::lock_guard lock(mutex_);
        auto& own = said_[static_cast<std::size_t>(rank())];
        if (!own.empty()) own.pop_front();
        missing_.clear();
      }
      return hearing_.said(*std::move(words));
    }
  if (kind == Kind::who && rank() == 0) return tell_who_is_missing(message.from);
  if (kind == Kind::missing && rank() != 0) {
    std::vector<std::int32_t> ranks((content.size() - 1) / sizeof(std::int32_t));
    if (!ranks.empty()) std::memcpy(ranks.data(), content.data() + 1, ranks.size() * sizeof(std::int32_t));
    const std::lock_guard lock(mutex_);
    if (!said_[static_cast<std::size_t>(rank())].empty()) missing_.assign(ranks.begin(), ranks.end());
    return;
  }
  if (kind == Kind::ended)
    if (const auto end = end_of(content.subspan(1)); end && (rank() != 0 || end->rank == message.from))
      return hear_end(*end);
  lose(message.from, "says what no process of this version says");
}

// The first end of each process counts: one that has closed its group goes, and its connection with it.
void ControlLink::hear_end(const End& end) {
  if (!ended_.insert(end.rank).second) return;
  if (rank() == 0 && end.rank != 0) {
    const Bytes message = message_of(end);
    for (int other = 1; other < channel_->size(); ++other)
      if (other != end.rank) channel_->send(other, message);
  }
  hearing_.ended(end);
}

// Who was taken for lost while it stood still accuses nobody. Rank 0 names a death that is proven all the same.
void ControlLink::lose(int lost, const std::string& how, bool proven) {
  if (!(proven && rank() == 0) && own_pause_.count() > 0 &&
      std::chrono::steady_clock::now() - own_pause_at_ < kAfterPause)
    return hear_end(
        {lost,
         fmt::format("[sync] {}, this process, stood still for {:.3g} s, and the others have gone on without it",
                     name_of(rank()), std::chrono::duration<double>(own_pause_).count()),
         0, false});
  hear_end({lost, fmt::format("[sync] {} {}", name_of(lost), how), 0, false});
}

std::string ControlLink::name_of(int named) const {
  const ControlMember& member = channel_->members().at(static_cast<std::size_t>(named));
  return fmt::format("rank {} on {} (pid {})", named, member.host, member.pid);
}

}  // namespace tutti
