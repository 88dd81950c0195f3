// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/frame_cipher.h>

#include <sodium.h>

#include <cstring>

namespace tutti {

namespace {

const std::uint8_t* raw(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }
std::uint8_t* raw(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

static_assert(crypto_aead_aes256gcm_ABYTES == FrameCipher::kTag &&
              crypto_aead_chacha20poly1305_ietf_ABYTES == FrameCipher::kTag);
static_assert(crypto_aead_aes256gcm_NPUBBYTES == 12 && crypto_aead_chacha20poly1305_ietf_NPUBBYTES == 12);

}  // namespace

FrameCipher::FrameCipher(Kind kind, const Key& key) : kind_(kind), key_(key) {}
FrameCipher::~FrameCipher() { sodium_memzero(key_.data(), key_.size()); }

bool FrameCipher::has_aes() { return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0; }

std::array<std::uint8_t, 12> FrameCipher::next_nonce() {
  std::array<std::uint8_t, 12> nonce{};
  std::memcpy(nonce.data(), &frames_, sizeof frames_);
  ++frames_;
  return nonce;
}

void FrameCipher::seal(std::span<const std::byte> head, std::byte* content, std::size_t size) {
  const auto nonce = next_nonce();
  const auto encrypt = kind_ == Kind::aes ? crypto_aead_aes256gcm_encrypt : crypto_aead_chacha20poly1305_ietf_encrypt;
  encrypt(raw(content), nullptr, raw(content), size, raw(head.data()), head.size(), nullptr, nonce.data(), key_.data());
}

bool FrameCipher::open(std::span<const std::byte> head, const std::byte* sealed, std::size_t size, std::byte* content) {
  const auto nonce = next_nonce();
  const auto decrypt = kind_ == Kind::aes ? crypto_aead_aes256gcm_decrypt : crypto_aead_chacha20poly1305_ietf_decrypt;
  return decrypt(raw(content), nullptr, nullptr, raw(sealed), size + kTag, raw(head.data()), head.size(), nonce.data(),
                 key_.data()) == 0;
}

}  // namespace tutti
