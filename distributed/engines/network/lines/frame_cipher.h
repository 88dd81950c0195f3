// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Encryption of the frames of one direction of one connection: authenticated encryption, a key that is used for
/// nothing else, and a nonce that counts the frames, so that none can be changed, left out, repeated or put elsewhere.
/// One thread at a time.
class FrameCipher {
 public:
  enum class Kind : std::uint8_t {
    none,    ///< plain frames, of a link that is trusted
    aes,     ///< AES-256-GCM, where both processors have it
    chacha,  ///< ChaCha20-Poly1305
  };
  using Key = std::array<std::uint8_t, 32>;
  static constexpr std::size_t kTag = 16;  ///< bytes that encryption adds to a frame

  /// Copies the key, and wipes its copy when it goes.
  FrameCipher(Kind, const Key&);
  ~FrameCipher();
  FrameCipher(const FrameCipher&) = delete;
  FrameCipher& operator=(const FrameCipher&) = delete;

  static bool has_aes();  ///< this processor has what AES-256-GCM needs

  bool encrypts() const noexcept { return kind_ != Kind::none; }
  /// Encrypts the content, of `size` bytes, where it lies, and writes the tag behind it. `head` is authenticated, too.
  void seal(std::span<const std::byte> head, std::byte* content, std::size_t size);
  /// Decrypts `size` bytes, with the tag behind them, to `content`. False: somebody has changed them.
  bool open(std::span<const std::byte> head, const std::byte* sealed, std::size_t size, std::byte* content);

 private:
  std::array<std::uint8_t, 12> next_nonce();

  Kind kind_;
  Key key_;
  std::uint64_t frames_ = 0;  // number of them so far
};

}  // namespace tutti
