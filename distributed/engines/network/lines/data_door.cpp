// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/data_door.h>

#include <tutti/backend/raise.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace tutti {

namespace {

constexpr int kPending = 64;

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Numeric addresses alone: no resolver is asked.
Resolved parsed(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    raise("[network] \"{}\" is no address of IPv4 or IPv6", address);
  return {found, freeaddrinfo};
}

bool stands_for_all(const sockaddr& address) {
  if (address.sa_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&ipv6) != 0;
}

OwnedDescriptor new_socket(int family) {
  OwnedDescriptor made(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (made) setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

}  // namespace

DataDoor::DataDoor(const std::string& address) {
  const Resolved place = parsed(address, 0);
  if (stands_for_all(*place->ai_addr)) raise("[network] \"{}\" stands for all addresses: name one", address);
  listener_ = new_socket(place->ai_family);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (!listener_ || bind(listener_.get(), place->ai_addr, place->ai_addrlen) != 0 ||
      listen(listener_.get(), kPending) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    raise("[network] cannot listen at {}: {}", address, std::generic_category().message(errno));
  port_ = ntohs(own.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(own).sin_port
                                         : reinterpret_cast<const sockaddr_in6&>(own).sin6_port);
}

OwnedDescriptor DataDoor::accept() const {
  OwnedDescriptor caller(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (caller) setsockopt(caller.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return caller;
}

OwnedDescriptor DataDoor::call(const std::string& address, int port) {
  const Resolved place = parsed(address, port);
  OwnedDescriptor made = new_socket(place->ai_family);
  if (made && ::connect(made.get(), place->ai_addr, place->ai_addrlen) != 0 && errno != EINPROGRESS) return {};
  return made;
}

}  // namespace tutti
