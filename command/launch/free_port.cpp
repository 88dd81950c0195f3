// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/free_port.h>

#include <tutti/command/launch/file_descriptor.h>
#include <tutti/command/launch/launch_error.h>

#include <netinet/in.h>
#include <sys/socket.h>

namespace tutti::launch {

std::string free_local_rendezvous() {
  const FileDescriptor end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!end) raise_errno("make a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(end.number(), any, size) != 0 || getsockname(end.number(), any, &size) != 0)
    raise_errno("find a free port of 127.0.0.1");
  return fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
}

}  // namespace tutti::launch
