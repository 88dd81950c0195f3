// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/segment_ring.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_layout.h>
#include <tutti/distributed/engines/shared_memory/segments/shared_futex.h>
#include <tutti/distributed/threads/spinning_wait.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kPage = 4096;

// Numbers go round after some thousand million reductions.
bool is_at(const RingWord& word, RingNumber wanted) {
  return static_cast<std::int32_t>(word.number.load(std::memory_order_seq_cst) - wanted.value()) >= 0;
}

const RingWord& word_of(const RingSlot& slot, RingPhase phase) {
  switch (phase) {
    case RingPhase::arrived: return slot.arrived;
    case RingPhase::done: return slot.done;
    case RingPhase::released: break;
  }
  return slot.released;
}

// Waits without giving the core up: another process that runs comes within the time that a piece takes, and who yields
// on a busy machine gets its core back milliseconds later.
template <class Condition> bool spin_on_core(Condition condition) {
  constexpr std::chrono::microseconds kMost{200};
  const auto end = std::chrono::steady_clock::now() + kMost;
  do {
    for (int turn = 0; turn < 50; ++turn) {
      if (condition()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

std::string_view name_of(RingPhase phase) {
  switch (phase) {
    case RingPhase::arrived: return "come to";
    case RingPhase::done: return "done its share of";
    case RingPhase::released: break;
  }
  return "released";
}

}  // namespace

std::size_t SegmentRing::bytes_before_free(std::size_t piece_bytes) {
  return (sizeof(SegmentHead) + RingNumber::kSlots * piece_bytes + kPage - 1) / kPage * kPage;
}

void SegmentRing::prepare(SharedSegment& segment, const Settings& settings) {
  auto* const head = new (segment.data()) SegmentHead;
  head->epoch = settings.epoch;
  head->rank = settings.rank;
  head->piece_bytes = settings.piece_bytes;
}

SegmentRing::SegmentRing(std::vector<std::shared_ptr<SharedSegment>> segments, Settings settings)
    : segments_(std::move(segments)),
      settings_(std::move(settings)),
      place_(static_cast<std::size_t>(std::ranges::find(settings_.ranks, settings_.rank) - settings_.ranks.begin())) {
  if (segments_.size() != settings_.ranks.size() || place_ == segments_.size())
    raise<SyncError>("[shared_memory] {} segments for ranks {}, of which rank {} is one", segments_.size(),
                     fmt::join(settings_.ranks, ", "), settings_.rank);
  for (std::size_t place = 0; place < segments_.size(); ++place) {
    const auto require = [&](std::string_view what, auto value, auto wanted) {
      if (value != wanted)
        raise<SyncError>("[shared_memory] the segment of rank {} has {} {}, here it is {}", rank(place), what, value,
                         wanted);
    };
    require("at least as many bytes as", std::min(segments_[place]->bytes(), bytes_before_free(settings_.piece_bytes)),
            bytes_before_free(settings_.piece_bytes));
    require("the mark", head(place).magic, SegmentHead::kMagic);
    require("the epoch", head(place).epoch, settings_.epoch);
    require("the rank", head(place).rank, rank(place));
    require("slots:", head(place).slots, RingNumber::kSlots);
    require("bytes of staging memory in a slot:", head(place).piece_bytes, settings_.piece_bytes);
  }
}

SegmentRing::~SegmentRing() = default;

SegmentHead& SegmentRing::head(std::size_t place) const {
  return *std::launder(reinterpret_cast<SegmentHead*>(segments_[place]->data()));
}
RingSlot& SegmentRing::slot(std::size_t place, RingNumber number) const { return head(place).slots_[number.slot()]; }

Announcement& SegmentRing::own_announcement(RingNumber number) { return slot(place_, number).announcement; }
const Announcement& SegmentRing::announcement(std::size_t place, RingNumber number) const {
  return slot(place, number).announcement;
}

std::size_t SegmentRing::staging(RingNumber number) const {
  return sizeof(SegmentHead) + number.slot() * settings_.piece_bytes;
}

bool SegmentRing::holds(const std::byte* data, std::size_t bytes) const {
  const std::less_equal<const std::byte*> before;
  const std::byte* const begin = own(bytes_before_free(settings_.piece_bytes));
  return before(begin, data) && before(data + bytes, own(segments_[place_]->bytes()));
}
std::size_t SegmentRing::offset_of(const std::byte* data) const { return static_cast<std::size_t>(data - own(0)); }
std::byte* SegmentRing::own(std::size_t offset) const { return segments_[place_]->data() + offset; }

std::byte* SegmentRing::at(std::size_t place, std::size_t offset, std::size_t bytes, std::size_t alignment) const {
  const std::size_t all = segments_[place]->bytes();
  if (offset < sizeof(SegmentHead) || offset > all || bytes > all - offset || offset % alignment != 0)
    raise<SyncError>("[shared_memory] rank {} says that {} bytes lie at {} of its segment, which has {}", rank(place),
                     bytes, offset, all);
  return segments_[place]->data() + offset;
}

// Of those that come last, each in its own order, one sees all others: stores and loads are in one order for all. Who
// is about to sleep is counted before it looks again, so that whoever rings sees it or is seen by it.
void SegmentRing::announce(RingPhase phase, RingNumber number) noexcept {
  RingSlot& own = slot(place_, number);
  const_cast<RingWord&>(word_of(own, phase)).number.store(number.value(), std::memory_order_seq_cst);
  if (head(0).sleepers.load(std::memory_order_seq_cst) > 0 && all_are(phase, number)) ring();
}

bool SegmentRing::all_are(RingPhase phase, RingNumber number) const noexcept {
  const auto is_there = [&](std::size_t place) { return is_at(word_of(slot(place, number), phase), number); };
  if (phase == RingPhase::released) return is_there(place_);
  for (std::size_t place = 0; place < segments_.size(); ++place)
    if (!is_there(place)) return false;
  return true;
}

bool SegmentRing::aborted() const noexcept {
  return head(0).abort.load(std::memory_order_seq_cst) != SegmentHead::Abort::none;
}
bool SegmentRing::reached(RingPhase phase, RingNumber number) const noexcept {
  return all_are(phase, number) || aborted();
}

void SegmentRing::ring() noexcept {
  head(0).rung.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(head(0).rung);
}

void SegmentRing::wait(RingPhase phase, RingNumber number, const std::function<void()>& help) noexcept {
  const auto over = [&] { return reached(phase, number); };
  if (over()) return;
  help();
  if (settings_.spins ? !spin_on_core(over) : !over()) sleep_until(phase, number, help);
}

void SegmentRing::sleep_until(RingPhase phase, RingNumber number, const std::function<void()>& help) noexcept {
  using Clock = StandstillWatch::Clock;
  SegmentHead& first = head(0);
  auto since = Clock::now();
  StandstillWatch watch(settings_.patience, settings_.patience, since);
  first.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t rung = first.rung.load(std::memory_order_seq_cst);
    help();
    if (reached(phase, number)) break;
    watch.skip_to(Clock::now());
    futex_wait(first.rung, rung, watch.period());
    const auto now = Clock::now();
    if (watch.look(now) > Clock::duration::zero()) since = now;
    if (now - since < settings_.patience || reached(phase, number)) continue;
    try {
      abort(fmt::format("rank {} waited {} ms: rank {} has not {} reduction {}", rank(place_),
                        settings_.patience.count(), ranks_behind(phase, number), name_of(phase), number.count()));
    } catch (...) {
      abort("a deadline has passed");  // no memory for the names
    }
  }
  first.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

std::string SegmentRing::ranks_behind(RingPhase phase, RingNumber number) const {
  std::vector<int> behind;
  for (std::size_t place = 0; place < segments_.size(); ++place)
    if (!is_at(word_of(slot(place, number), phase), number)) behind.push_back(rank(place));
  return fmt::format("{}", fmt::join(behind, ", "));
}

void SegmentRing::abort(std::string_view reason) noexcept {
  SegmentHead& first = head(0);
  auto none = SegmentHead::Abort::none;
  if (!first.abort.compare_exchange_strong(none, SegmentHead::Abort::being_written)) return;
  const std::size_t length = std::min(reason.size(), SegmentHead::kMostReason - 1);
  std::copy_n(reason.data(), length, first.reason);
  first.abort.store(SegmentHead::Abort::written, std::memory_order_seq_cst);
  ring();
}

// Who was killed while it wrote leaves none.
std::string SegmentRing::reason() const {
  const SegmentHead& first = head(0);
  const auto written = [&] { return first.abort.load(std::memory_order_acquire) == SegmentHead::Abort::written; };
  if (!spin_until(written)) return "a process that has not told why ended the group";
  return {first.reason, strnlen(first.reason, SegmentHead::kMostReason)};
}

void SegmentRing::check() const {
  if (aborted()) raise<SyncError>("[shared_memory] epoch {} has ended: {}", settings_.epoch, reason());
}

}  // namespace tutti
