// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/segment_words.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_layout.h>
#include <tutti/distributed/engines/shared_memory/segments/shared_futex.h>

#include <cstring>
#include <new>

namespace tutti {

std::size_t SegmentWords::most_bytes() noexcept { return sizeof(WordsSlot::words); }

SegmentHead& SegmentWords::head(std::size_t place) const {
  return *std::launder(reinterpret_cast<SegmentHead*>(segments_[place]->data()));
}
WordsSlot& SegmentWords::slot(std::size_t place, std::uint64_t number) const { return head(place).words[number % 2]; }

// As with reductions (SegmentRing::announce): of those that come last one sees all others, and who sleeps.
void SegmentWords::say(std::uint64_t number, std::span<const std::byte> words) noexcept {
  WordsSlot& own = slot(place_, number);
  own.bytes = words.size() <= most_bytes() ? static_cast<std::uint32_t>(words.size()) : WordsSlot::kElsewhere;
  if (own.bytes != WordsSlot::kElsewhere && !words.empty()) std::memcpy(own.words, words.data(), words.size());
  own.said.number.store(static_cast<std::uint32_t>(number), std::memory_order_seq_cst);
  if (head(0).words_sleepers.load(std::memory_order_seq_cst) > 0 && all_have_said(number)) wake();
}

bool SegmentWords::has_said(std::size_t place, std::uint64_t number) const noexcept {
  const std::uint32_t said = slot(place, number).said.number.load(std::memory_order_seq_cst);
  return static_cast<std::int32_t>(said - static_cast<std::uint32_t>(number)) >= 0;
}

bool SegmentWords::all_have_said(std::uint64_t number) const noexcept {
  for (std::size_t place = 0; place < size(); ++place)
    if (!has_said(place, number)) return false;
  return true;
}

std::optional<SegmentWords::Bytes> SegmentWords::words(std::size_t place, std::uint64_t number) const {
  const WordsSlot& theirs = slot(place, number);
  const std::uint32_t bytes = theirs.bytes;
  if (bytes == WordsSlot::kElsewhere) return std::nullopt;
  if (bytes > most_bytes())
    raise<SyncError>("[shared_memory] rank {} says that it has said {} bytes: {} are possible", head(place).rank, bytes,
                     most_bytes());
  return Bytes(theirs.words, theirs.words + bytes);
}

void SegmentWords::sleep(std::uint64_t number, std::chrono::nanoseconds most) noexcept {
  SegmentHead& first = head(0);
  first.words_sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t rung = first.words_rung.load(std::memory_order_seq_cst);
  if (!all_have_said(number)) futex_wait(first.words_rung, rung, most);
  first.words_sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void SegmentWords::wake() noexcept {
  head(0).words_rung.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(head(0).words_rung);
}

}  // namespace tutti
