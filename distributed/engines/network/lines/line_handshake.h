// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/frame_cipher.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace tutti {

/// Connections between two processes, apart so that none of them can hold up another: a request that a process has not
/// launched yet keeps those of the other sequence from nothing, and results never wait for slices.
enum class Lane : std::uint8_t {
  round,    ///< announcements and slices of Sequence::round
  users,    ///< those of Sequence::users
  results,  ///< results of both, and ends
};
constexpr std::size_t kLanes = 3;

/// First words of both sides of a connection, before either knows who the other is.
struct LineHello {
  static constexpr std::uint64_t kMagic = 0x3130'656e'696c'7474;

  std::uint64_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t piece_bytes = 0;  ///< size of a piece of a request
  Lane lane = Lane::round;
  std::uint8_t encrypts = 0;
  std::uint8_t has_aes = 0;
  std::uint8_t unused[5] = {};
  std::array<std::uint8_t, 32> nonce{};  ///< random, so that no run of a handshake is like another
};
static_assert(std::is_trivially_copyable_v<LineHello> && sizeof(LineHello) == 56);

/// A mutual proof of both sides of a connection: that they know the run's key. The caller says its hello; the
/// called one answers with its own and a proof; the caller proves, and the called one confirms. Everything that was
/// said goes into the proofs, and into the keys of both directions, with the epoch.
class LineHandshake {
 public:
  using Proof = std::array<std::uint8_t, 32>;
  enum class Step : std::uint8_t { called_proves = 1, caller_proves, called_confirms, key_of_caller, key_of_called };

  /// `key`: of the run, known to its processes alone; must outlive this.
  LineHandshake(const FrameCipher::Key& key, std::uint64_t epoch) : key_(key), epoch_(epoch) {}

  static LineHello hello(int rank, Lane, std::size_t piece_bytes, bool encrypts);
  Proof proof(Step, const LineHello& caller, const LineHello& called) const;
  static bool equal(const Proof&, const Proof&);  ///< takes as long wherever they differ

  /// Cipher that both have.
  static FrameCipher::Kind cipher_of(const LineHello&, const LineHello&);
  /// Difference between options of two processes that have proved who they are, with both values; empty: none.
  static std::string difference(const LineHello&, const LineHello&);

 private:
  const FrameCipher::Key& key_;
  std::uint64_t epoch_;
};

}  // namespace tutti
