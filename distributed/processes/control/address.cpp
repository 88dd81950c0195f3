// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/address.h>

#include <tutti/backend/raise.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace tutti::control {

namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ipv6) || (IN6_IS_ADDR_V4MAPPED(&ipv6) && ipv6.s6_addr[12] == 127);
}

bool is_wildcard(const sockaddr& address) {
  if (address.sa_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&ipv6) ||
         (IN6_IS_ADDR_V4MAPPED(&ipv6) &&
          std::ranges::all_of(std::span(ipv6.s6_addr).last(4), [](int b) { return b == 0; }));
}

socklen_t size_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::optional<Address> numeric(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return std::nullopt;
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size_of(*address), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return Address{text.data(), is_loopback(*address)};
}

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Resolved look_up(const std::string& name, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    raise<Error>("[rendezvous] rank 0's host \"{}\" has no address: {}", name,
                 error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  return {found, freeaddrinfo};
}

bool contains(const std::vector<Address>& addresses, const std::string& text) {
  return std::ranges::any_of(addresses, [&](const Address& each) { return each.text == text; });
}

std::string texts(const std::vector<Address>& addresses) {
  std::string all;
  for (const Address& each : addresses) all += (all.empty() ? "" : ", ") + each.text;
  return all;
}

std::vector<std::string> addresses_of_host() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) raise<Error>("[rendezvous] the addresses of this host: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<std::string> all;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next)
    if (const auto address = numeric(each->ifa_addr)) all.push_back(address->text);
  return all;
}

bool is_own(const Address& address, const std::vector<std::string>& of_host) {
  // All of 127.0.0.0/8 is, though only 127.0.0.1 is listed.
  return (address.loopback && !address.is_ipv6()) || std::ranges::find(of_host, address.text) != of_host.end();
}

// A connected UDP socket, which has asked the kernel for the way, and sent nothing.
std::optional<Address> own_end_of_way_to(const Address& coordinator, int port) {
  const Resolved target = look_up(coordinator.text, port, AI_NUMERICHOST);
  const int descriptor = socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool found = connect(descriptor, target->ai_addr, target->ai_addrlen) == 0 &&
                     getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  close(descriptor);
  return found ? numeric(reinterpret_cast<const sockaddr*>(&own)) : std::nullopt;
}

}  // namespace

std::string host_and_port(const Address& address, int port) {
  return address.is_ipv6() ? fmt::format("[{}]:{}", address.text, port) : fmt::format("{}:{}", address.text, port);
}

std::vector<Address> resolve(const LaunchPlace& place) {
  if (place.address.empty() || place.port == 0)
    raise<Error>(
        "[rendezvous] {} does not tell the {} where rank 0 waits: set TUTTI_RENDEZVOUS to \"host:port\", the same for "
        "all processes",
        place.launcher, place.address.empty() ? "address" : "port");
  const Resolved resolved = look_up(place.address, place.port, 0);
  std::vector<Address> all;
  for (const addrinfo* each = resolved.get(); each != nullptr; each = each->ai_next) {
    const auto address = numeric(each->ai_addr);
    if (!address || contains(all, address->text)) continue;
    if (is_wildcard(*each->ai_addr))
      raise<Error>("[rendezvous] rank 0's address is \"{}\", which stands for all: name the one that the others reach",
                   place.address);
    all.push_back(*address);
  }
  if (all.empty()) raise<Error>("[rendezvous] rank 0's host \"{}\" has no address of IPv4 or IPv6", place.address);
  std::ranges::stable_partition(all, [](const Address& each) { return !each.is_ipv6(); });
  return all;
}

std::vector<Address> own_addresses(const LaunchPlace& place, const std::vector<Address>& resolved) {
  const std::vector<std::string> of_host = addresses_of_host();
  std::vector<Address> own;
  for (const Address& each : resolved)
    if (is_own(each, of_host)) own.push_back(each);
  if (own.empty())
    raise<Error>(
        "[rendezvous] this process is rank 0, but \"{}\" ({}) is no address of this host, {}: is it another "
        "host's name?",
        place.address, texts(resolved), host_name());
  // The number of processes of this host is 0 where nobody told it.
  const bool others = place.local_size != 0 && place.local_size < place.size;
  if (others && std::ranges::all_of(own, &Address::loopback))
    raise<Error>(
        "[rendezvous] \"{}\" is {} here, an address that only this host reaches, but {} of the job's {} processes are "
        "on other hosts: name an address of this host's network, or mend /etc/hosts",
        place.address, texts(own), place.size - place.local_size, place.size);
  return own;
}

Route route_to(const LaunchPlace& place, const std::vector<Address>& resolved) {
  for (const Address& each : resolved)
    if (const auto own = own_end_of_way_to(each, place.port)) return {each, *own};
  raise<Error>("[rendezvous] there is no way from this host, {}, to rank 0 at \"{}\" ({})", host_name(), place.address,
               texts(resolved));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace tutti::control
