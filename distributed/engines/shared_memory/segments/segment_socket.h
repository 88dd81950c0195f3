// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace tutti {

/// Words of a process about itself, beside its segment's descriptor.
struct SegmentHello {
  static constexpr std::uint64_t kMagic = 0x3130'6d68'7369'7474;

  std::uint64_t magic = kMagic;
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;   // number of them in the meeting
  std::uint64_t bytes = 0;  // length of the segment
};
static_assert(std::is_trivially_copyable_v<SegmentHello>);

/// A hello that came with exactly one descriptor.
struct ReceivedSegment {
  SegmentHello hello;
  OwnedDescriptor descriptor;
};

// Sockets keep messages apart and never block. `address`: in the abstract namespace, without the leading zero byte.

/// Listens there. Throws Error naming the address if that is taken.
OwnedDescriptor listen_at(const std::string& address);
/// Connects to a process of this user that listens there; none: nobody does yet, or it is another user's.
OwnedDescriptor connect_to(const std::string& address);
/// The next one that has connected and is of this user; strangers are sent away. None: nobody waits.
OwnedDescriptor accept_from(int listener);

/// False: the other side has gone.
bool send_segment(int socket, const SegmentHello&, int descriptor);

enum class Reception : std::uint8_t { nothing_yet, received, refused };
/// `refused`: the end, an error, or anything but one hello with one descriptor; what came is closed.
Reception receive_segment(int socket, ReceivedSegment&);

}  // namespace tutti
