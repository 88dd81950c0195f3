// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/key_gate.h>

#include <zmq.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tutti::control {

namespace {

ByteView bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
bool equals(ByteView part, std::string_view text) { return std::ranges::equal(part, bytes(text)); }

}  // namespace

KeyGate::KeyGate(const SocketContext& context, const std::vector<PublicKey>& keys_of_ranks)
    : socket_(context, ZMQ_REP) {
  for (std::size_t rank = 0; rank < keys_of_ranks.size(); ++rank) ranks_[keys_of_ranks[rank]] = static_cast<int>(rank);
  socket_.set(ZMQ_LINGER, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

void KeyGate::answer() {
  // version, request, domain, address, identity, mechanism, key
  for (Parts request; socket_.receive(request);) {
    const auto& parts = request.parts;
    const auto part = [&](std::size_t i) { return i < parts.size() ? ByteView(parts[i]) : ByteView(); };
    std::optional<int> rank;
    PublicKey key;
    if (parts.size() == 7 && equals(part(0), "1.0") && equals(part(2), kDomain) && equals(part(5), "CURVE") &&
        part(6).size() == key.size()) {
      std::ranges::transform(part(6), key.begin(), [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
      if (const auto found = ranks_.find(key); found != ranks_.end()) rank = found->second;
    }
    if (!rank) ++refused_;
    const std::string user = rank ? std::to_string(*rank) : "";
    socket_.send({bytes("1.0"), part(1), bytes(rank ? "200" : "400"), bytes(rank ? "OK" : "no member's key"),
                  bytes(user), ByteView()});
  }
}

}  // namespace tutti::control
