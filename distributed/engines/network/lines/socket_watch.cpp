// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/socket_watch.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/network/lines/socket_line.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace tutti {

SocketWatch::SocketWatch() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) raise("[network] no eventfd: {}", std::generic_category().message(errno));
}
SocketWatch::~SocketWatch() = default;

void SocketWatch::wake() noexcept {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

bool SocketWatch::wait(std::span<Watched> lines, std::chrono::milliseconds most) {
  sockets_.assign(1, {wake_.get(), POLLIN, 0});
  for (const Watched& each : lines)
    sockets_.push_back({static_cast<const SocketLine*>(each.line)->descriptor(),
                        static_cast<short>((each.reads ? POLLIN : 0) | (each.writes ? POLLOUT : 0)), 0});
  poll(sockets_.data(), sockets_.size(), static_cast<int>(most.count()));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].can_write = (sockets_[i + 1].revents & POLLOUT) != 0;
    lines[i].can_read = (sockets_[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  }
  if (sockets_[0].revents == 0) return false;
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  // Last, or a count that comes between would be read, and nobody could wake any more. Who has just not woken has
  // changed what is looked at from here on.
  woken_.store(false, std::memory_order_seq_cst);
  return true;
}

}  // namespace tutti
