// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/line_handshake.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

namespace tutti {

LineHello LineHandshake::hello(int rank, Lane lane, std::size_t piece_bytes, bool encrypts) {
  if (sodium_init() < 0) raise<Error>("[network] libsodium could not begin");
  LineHello hello;
  hello.rank = static_cast<std::uint32_t>(rank);
  hello.piece_bytes = static_cast<std::uint32_t>(piece_bytes);
  hello.lane = lane;
  hello.encrypts = encrypts ? 1 : 0;
  hello.has_aes = FrameCipher::has_aes() ? 1 : 0;
  randombytes_buf(hello.nonce.data(), hello.nonce.size());
  return hello;
}

LineHandshake::Proof LineHandshake::proof(Step step, const LineHello& caller, const LineHello& called) const {
  std::array<std::uint8_t, 1 + sizeof(epoch_) + 2 * sizeof(LineHello)> text{};
  text[0] = static_cast<std::uint8_t>(step);
  std::memcpy(text.data() + 1, &epoch_, sizeof epoch_);
  std::memcpy(text.data() + 1 + sizeof epoch_, &caller, sizeof caller);
  std::memcpy(text.data() + 1 + sizeof epoch_ + sizeof caller, &called, sizeof called);
  Proof proof{};
  if (crypto_generichash(proof.data(), proof.size(), text.data(), text.size(), key_.data(), key_.size()) != 0)
    raise<Error>("[network] libsodium could not hash");
  return proof;
}

bool LineHandshake::equal(const Proof& one, const Proof& other) {
  return sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

FrameCipher::Kind LineHandshake::cipher_of(const LineHello& one, const LineHello& other) {
  if (one.encrypts == 0) return FrameCipher::Kind::none;
  return one.has_aes != 0 && other.has_aes != 0 ? FrameCipher::Kind::aes : FrameCipher::Kind::chacha;
}

std::string LineHandshake::difference(const LineHello& one, const LineHello& other) {
  const LineHello& low = one.rank < other.rank ? one : other;
  const LineHello& high = one.rank < other.rank ? other : one;
  const auto encryption = [](const LineHello& each) { return each.encrypts != 0 ? "encrypts" : "does not encrypt"; };
  if (low.encrypts != high.encrypts)
    return fmt::format("rank {} {}, rank {} {}", low.rank, encryption(low), high.rank, encryption(high));
  if (low.piece_bytes != high.piece_bytes)
    return fmt::format("rank {} has pieces of {} bytes, rank {} of {}", low.rank, low.piece_bytes, high.rank,
                       high.piece_bytes);
  return {};
}

}  // namespace tutti
