// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/segment_socket.h>

#include <tutti/backend/raise.h>

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

namespace tutti {

namespace {

constexpr int kKind = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kPending = 128;

struct Address {
  explicit Address(const std::string& name) {
    if (name.empty() || name.size() >= sizeof(path.sun_path))
      raise("[shared_memory] the socket's name \"{}\" must have 1 to {} bytes", name, sizeof(path.sun_path) - 1);
    path.sun_family = AF_UNIX;
    std::ranges::copy(name, path.sun_path + 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&path); }

  sockaddr_un path{};
  socklen_t length;
};

bool of_this_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

// Takes all descriptors of a message, so that none stays open.
std::vector<OwnedDescriptor> descriptors_of(msghdr& message) {
  std::vector<OwnedDescriptor> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof descriptor);
      descriptors.emplace_back(descriptor);
    }
  }
  return descriptors;
}

}  // namespace

OwnedDescriptor listen_at(const std::string& address) {
  const Address place(address);
  OwnedDescriptor listener(socket(AF_UNIX, kKind, 0));
  if (!listener || bind(listener.get(), place.get(), place.length) != 0 || listen(listener.get(), kPending) != 0)
    raise("[shared_memory] cannot listen at the abstract unix socket \"{}\": {}", address,
          std::generic_category().message(errno));
  return listener;
}

OwnedDescriptor connect_to(const std::string& address) {
  const Address place(address);
  OwnedDescriptor connection(socket(AF_UNIX, kKind, 0));
  if (!connection || connect(connection.get(), place.get(), place.length) != 0 || !of_this_user(connection.get()))
    return {};
  return connection;
}

OwnedDescriptor accept_from(int listener) {
  for (;;) {
    OwnedDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection || of_this_user(connection.get())) return connection;
  }
}

bool send_segment(int socket, const SegmentHello& hello, int descriptor) {
  SegmentHello copy = hello;
  iovec bytes{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof copy);
}

Reception receive_segment(int socket, ReceivedSegment& received) {
  iovec bytes{&received.hello, sizeof received.hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return Reception::nothing_yet;
  if (length < 0) return Reception::refused;
  std::vector<OwnedDescriptor> descriptors = descriptors_of(message);
  if (length != static_cast<ssize_t>(sizeof received.hello) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      received.hello.magic != SegmentHello::kMagic || descriptors.size() != 1)
    return Reception::refused;
  received.descriptor = std::move(descriptors.front());
  return Reception::received;
}

}  // namespace tutti
