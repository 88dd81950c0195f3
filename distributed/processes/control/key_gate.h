// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control/sockets.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace tutti::control {

using PublicKey = std::array<std::uint8_t, 32>;

/// The handler that libzmq asks about each key that wants in (ZAP, RFC 27): lets members' keys in, and tells whose each
/// is. Made before the socket that it guards; the same thread serves both.
class KeyGate {
 public:
  KeyGate(const SocketContext&, const std::vector<PublicKey>& keys_of_ranks);

  Socket& socket() { return socket_; }
  void answer();  ///< all that was asked
  std::uint64_t refused() const { return refused_; }

  static constexpr const char* kDomain = "tutti";

 private:
  std::map<PublicKey, int> ranks_;
  Socket socket_;
  std::uint64_t refused_ = 0;
};

}  // namespace tutti::control
