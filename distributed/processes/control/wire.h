// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Frames of the control channel as bytes: integers with the least byte first, texts behind their length in two bytes.
// Pure: no sockets, no clocks, no errors thrown. What does not decode exactly, to its last byte, is no frame.

namespace tutti::control {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using Digest = std::array<std::byte, 32>;

inline constexpr std::uint16_t kProtocol = 1;
inline constexpr std::size_t kMostHandshakeBytes = 1024;  ///< limit of a frame of somebody who is no member yet
inline constexpr std::size_t kMostDataBytes = 65'000;     ///< limit of what users send
inline constexpr std::size_t kMostFrameBytes = kMostDataBytes + 1;
inline constexpr std::size_t kMostWireBytes =
    64 * 1024;                                      ///< limit of a frame and what encryption adds to it, about 40 bytes
inline constexpr std::size_t kMostTextBytes = 256;  ///< limit of a host's name or a job's
inline constexpr std::size_t kMostReasonBytes = 960;  ///< limit of a refusal; longer ones are cut
inline constexpr std::size_t kMostMembersOfFrame = 64;

enum class ByteOrder : std::uint8_t { little = 1, big = 2 };
inline constexpr ByteOrder kOwnByteOrder =
    std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;

/// Words behind the level of instructions: products of bf16 are not f32's, so that their bits are others.
inline constexpr std::string_view kWithPairs = " with bf16 in pairs";
inline constexpr std::string_view kWithTiles = " with bf16 in tiles";
inline constexpr std::string_view kWithoutWinograd = " without Winograd's convolutions";

/// A process's words of itself when it comes. The fields down to `host` are the same in every version of the
/// protocol; those behind it are read of the own version only.
struct Hello {
  std::uint16_t protocol = kProtocol;
  ByteOrder byte_order = kOwnByteOrder;
  std::uint32_t rank = 0;
  std::uint64_t pid = 0;
  std::string host;
  std::uint64_t instance = 0;  ///< random: tells two processes of one rank from one that comes again
  std::uint32_t world_size = 0;
  std::string job;
  std::string library;       ///< its version
  std::string instructions;  ///< level of instructions that it was compiled for, and how it multiplies bf16
  std::string address;       ///< its door's, "host:port"
  Digest options{};

  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Member {
  std::uint32_t rank = 0;
  std::uint64_t pid = 0;
  std::string host;
  std::string address;  ///< its door's, "host:port"

  friend bool operator==(const Member&, const Member&) = default;
};

/// Rank 0's answer when all have come: at most kMostMembersOfFrame members of the table, which may take several.
struct Welcome {
  std::vector<Member> members;

  friend bool operator==(const Welcome&, const Welcome&) = default;
};

/// Rank 0's answer to a process that cannot be admitted, or to all when the rendezvous fails.
struct Refusal {
  std::string reason;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// Rank 0's answer while others are missing.
struct Waiting {
  std::string missing;

  friend bool operator==(const Waiting&, const Waiting&) = default;
};

struct Heartbeat {
  std::uint64_t progress = 0;

  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

/// Bytes that users of the channel send.
struct Data {
  Bytes bytes;

  friend bool operator==(const Data&, const Data&) = default;
};

using Frame = std::variant<Hello, Welcome, Refusal, Waiting, Heartbeat, Data>;

/// Texts longer than kMostTextBytes (kMostReasonBytes) are cut, members and data beyond the limits are not checked
/// here: the caller keeps to them.
Bytes encode(const Frame&);
/// The frame that these bytes are; none if they are not exactly one.
std::optional<Frame> decode(ByteView);

}  // namespace tutti::control
