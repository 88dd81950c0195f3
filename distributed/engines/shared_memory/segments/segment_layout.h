// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/segment_ring.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// A number that one process writes and others poll, alone in its cache line.
struct alignas(64) RingWord {
  std::atomic<std::uint32_t> number{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// A process's side of one reduction.
struct RingSlot {
  RingWord arrived;
  RingWord done;
  RingWord released;
  alignas(64) Announcement announcement;
};

/// Words of a process under one number (SegmentWords).
struct WordsSlot {
  static constexpr std::uint32_t kElsewhere = ~std::uint32_t{0};

  RingWord said;
  std::uint32_t bytes = 0;  ///< kElsewhere: they are said in another way
  std::byte words[4096 - sizeof(std::uint32_t)] = {};
};

/// The start of each segment.
struct SegmentHead {
  static constexpr std::uint64_t kMagic = 0x3130'676e'6972'7474;
  static constexpr std::size_t kMostReason = 1024;
  enum class Abort : std::uint32_t { none, being_written, written };

  std::uint64_t magic = kMagic;
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::uint32_t slots = RingNumber::kSlots;
  std::uint64_t piece_bytes = 0;

  // Used in the first rank's segment alone, for all.
  alignas(64) std::atomic<std::uint32_t> rung{0};  // slept on
  std::atomic<std::uint32_t> sleepers{0};  // number; those killed in their sleep stay counted: others ring in vain
  alignas(64) std::atomic<Abort> abort{Abort::none};
  char reason[kMostReason] = {};

  // Sleepers until words are there, likewise.
  alignas(64) std::atomic<std::uint32_t> words_rung{0};
  std::atomic<std::uint32_t> words_sleepers{0};

  WordsSlot words[2];
  alignas(64) RingSlot slots_[RingNumber::kSlots];
};

}  // namespace tutti
