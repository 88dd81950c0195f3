// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/engines/shared_memory/segments/announcement.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti {

/// First bytes of what goes over a connection between two processes; the content follows. All processes of a job have
/// one byte order: the control channel refuses others.
struct FrameHead {
  enum class Kind : std::uint8_t {
    announcement = 1,  ///< a process's side of a request, the first of its frames
    slices,            ///< elements of the sender's arrays that the receiver needs for a piece
    results,           ///< a piece of the sender's share, reduced
    abort,             ///< the reason why the group ends, as text
    goodbye,           ///< the sender has finished all that it launched, and goes
  };

  Kind kind{};
  Sequence sequence = Sequence::round;
  std::uint16_t unused = 0;
  std::uint32_t number = 0;  ///< the request's in its sequence, from 1
  std::uint32_t piece = 0;
  std::uint32_t bytes = 0;  ///< length of the content
};
static_assert(std::is_trivially_copyable_v<FrameHead> && sizeof(FrameHead) == 16);

/// The longest content of frames that are no data.
constexpr std::size_t kMostTold = 1024;

/// The words of a process about its side of a request (offsets of slices mean nothing between hosts, and stay behind).
std::vector<std::byte> bytes_of(const Announcement&);
/// The same, read; none: these bytes are no announcement. No value that is returned is out of its range.
std::optional<Announcement> announcement_of(std::span<const std::byte>);

}  // namespace tutti
