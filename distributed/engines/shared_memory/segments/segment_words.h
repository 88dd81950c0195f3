// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

struct SegmentHead;
struct WordsSlot;

/// Short words of all processes in their segments, under numbers from 1 on that all count alike: those of a number can
/// be read once all have said theirs. Each process says a number when it has read the one before, so that two slots of
/// each suffice. One thread says, and any waits and reads.
class SegmentWords {
 public:
  using Bytes = std::vector<std::byte>;

  /// `segments`: by place, each with a head that SegmentRing has prepared and compared. `place`: this process's.
  SegmentWords(std::vector<std::shared_ptr<SharedSegment>> segments, std::size_t place)
      : segments_(std::move(segments)), place_(place) {}

  static std::size_t most_bytes() noexcept;
  std::size_t size() const noexcept { return segments_.size(); }  ///< number of processes

  /// Says this process's; what is longer than `most_bytes` counts as said, and is none for all who read.
  void say(std::uint64_t number, std::span<const std::byte> words) noexcept;
  bool has_said(std::size_t place, std::uint64_t number) const noexcept;
  bool all_have_said(std::uint64_t number) const noexcept;
  /// Words of a process under a number that all have said.
  std::optional<Bytes> words(std::size_t place, std::uint64_t number) const;
  /// Sleeps until all have said the number, at most that long; may wake for nothing.
  void sleep(std::uint64_t number, std::chrono::nanoseconds most) noexcept;
  void wake() noexcept;  ///< wakes who sleeps, in all processes

 private:
  SegmentHead& head(std::size_t place) const;
  WordsSlot& slot(std::size_t place, std::uint64_t number) const;

  std::vector<std::shared_ptr<SharedSegment>> segments_;
  std::size_t place_;
};

}  // namespace tutti
