// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/launch_environment.h>

#include <string>
#include <string_view>
#include <vector>

namespace tutti::control {

/// A numeric address of IPv4 or IPv6.
struct Address {
  std::string text;
  bool loopback = false;

  bool is_ipv6() const { return text.find(':') != std::string::npos; }
};

/// "10.0.0.1:4000", "[fe80::1]:4000".
std::string host_and_port(const Address&, int port);

/// All addresses that the place's name has, IPv4 first, each once. Asks the resolver, which may take as long as that is
/// configured to wait. Throws Error naming the name: if none was told, no port was told, it has no address, or a
/// wildcard.
std::vector<Address> resolve(const LaunchPlace&);

/// Those of the addresses where rank 0 may wait: this host's own. Throws Error naming name and addresses: if none is
/// this host's; if all are loopback ones though the job has processes on other hosts.
std::vector<Address> own_addresses(const LaunchPlace&, const std::vector<Address>& resolved);

/// The coordinator's address that this host has a way to, and the own one from where that begins.
struct Route {
  Address coordinator;
  Address own;
};
/// The first of the addresses to which there is a way; sends nothing. Throws Error naming them if there is none.
Route route_to(const LaunchPlace&, const std::vector<Address>& resolved);

/// This host's name, for texts.
std::string host_name();

}  // namespace tutti::control
