// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/announcement.h>
#include <tutti/distributed/engines/shared_memory/segments/ring_number.h>
#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct SegmentHead;
struct RingSlot;

/// How far a process is with a reduction.
enum class RingPhase : std::uint8_t {
  arrived,   ///< its slices are there and its announcement can be read
  done,      ///< it will not touch others' memory any more
  released,  ///< its own slot and staging memory can be used again; looked at by this process alone
};

/// The segments of all processes as two rings of slots, one ring for each sequence, one slot for each reduction on its
/// way. All processes number reductions alike. In its own segment's slot a process says how far it is with the
/// reduction and what it needs, beside the staging memory for one piece. Who waits sleeps on one counter for all, which
/// rings when the last process has come. Thread-safe; a number's announcement and staging memory belong to whoever
/// carries out its reduction.
class SegmentRing {
 public:
  static constexpr std::size_t kLine = 64;  ///< bytes: of a cache line

  struct Settings {
    std::vector<int> ranks;  ///< numbers of all processes, ascending
    int rank = 0;            ///< this one
    std::uint64_t epoch = 0;
    std::size_t piece_bytes = 0;  ///< staging memory of a slot, a multiple of kLine
    std::chrono::milliseconds patience{};
    bool spins = false;  ///< true if cores are free while others are waited for
  };

  /// Bytes of a segment before its free memory, and the offset of that.
  static std::size_t bytes_before_free(std::size_t piece_bytes);
  /// Writes the head of this process's segment, before others see it.
  static void prepare(SharedSegment&, const Settings&);

  /// `segments`: by the place of their rank. Throws SyncError, naming rank and both values, unless all are of this
  /// epoch and have slots of one size.
  SegmentRing(std::vector<std::shared_ptr<SharedSegment>> segments, Settings);
  ~SegmentRing();
  SegmentRing(const SegmentRing&) = delete;
  SegmentRing& operator=(const SegmentRing&) = delete;

  std::size_t size() const noexcept { return segments_.size(); }  ///< number of processes
  std::size_t place() const noexcept { return place_; }           ///< place of this process
  int rank(std::size_t place) const { return settings_.ranks[place]; }
  std::size_t piece_bytes() const noexcept { return settings_.piece_bytes; }
  /// Segments of all processes, by place.
  const std::vector<std::shared_ptr<SharedSegment>>& segments() const noexcept { return segments_; }

  // --- memory
  Announcement& own_announcement(RingNumber number);
  const Announcement& announcement(std::size_t place, RingNumber number) const;
  /// Offset of a number's staging memory in each segment.
  std::size_t staging(RingNumber number) const;
  /// Offset of memory of this process's segment, behind the head; none: it lies elsewhere.
  bool holds(const std::byte* data, std::size_t bytes) const;
  std::size_t offset_of(const std::byte* data) const;
  /// Address in that process's segment. Throws SyncError, naming its rank, unless the bytes lie behind its head,
  /// aligned.
  std::byte* at(std::size_t place, std::size_t offset, std::size_t bytes, std::size_t alignment) const;
  std::byte* own(std::size_t offset) const;

  // --- how far the processes are
  void announce(RingPhase, RingNumber number) noexcept;
  /// True if all processes are that far, or the group is aborted.
  bool reached(RingPhase, RingNumber number) const noexcept;
  /// Blocks until that is so, and calls `help` before it sleeps. Aborts the group, naming the ranks that have not come,
  /// when that takes longer than its patience; a standstill of this process does not count.
  void wait(RingPhase, RingNumber number, const std::function<void()>& help) noexcept;

  // --- the end
  /// Fails all reductions of all processes, for good, with this reason; the first one counts. Any thread.
  void abort(std::string_view reason) noexcept;
  void check() const;  ///< throws SyncError with the reason if the group is aborted

 private:
  SegmentHead& head(std::size_t place) const;
  RingSlot& slot(std::size_t place, RingNumber number) const;
  bool all_are(RingPhase, RingNumber number) const noexcept;
  bool aborted() const noexcept;
  std::string reason() const;
  std::string ranks_behind(RingPhase, RingNumber number) const;
  void ring() noexcept;
  void sleep_until(RingPhase, RingNumber number, const std::function<void()>& help) noexcept;

  std::vector<std::shared_ptr<SharedSegment>> segments_;
  Settings settings_;
  std::size_t place_;
};

}  // namespace tutti
