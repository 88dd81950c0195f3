// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/free_port.h>

#include <tutti/command/launch/file_descriptor.h>
#include <tutti/command/launch/launch_error.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <random>

namespace tutti::launch {

namespace {

// 0: what the system gives. Empty when it is taken.
std::optional<int> free_port(int asked) {
  const FileDescriptor end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!end) raise_errno("make a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(asked));
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(end.number(), any, size) != 0 || getsockname(end.number(), any, &size) != 0) return std::nullopt;
  return ntohs(address.sin_port);
}

}  // namespace

std::string free_local_rendezvous() {
  constexpr int kFirst = 10'000;
  constexpr int kTries = 64;
  // The system gives connections a port of this range, also the others' that knock before rank 0 listens.
  int given_first = 0;
  int given_last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> given_first >> given_last;
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    const int port = std::uniform_int_distribution(kFirst, 65'535)(random);
    if (port >= given_first && port <= given_last) continue;
    if (const auto free = free_port(port)) return fmt::format("127.0.0.1:{}", *free);
  }
  if (const auto free = free_port(0)) return fmt::format("127.0.0.1:{}", *free);
  raise_errno("find a free port of 127.0.0.1");
}

}  // namespace tutti::launch
