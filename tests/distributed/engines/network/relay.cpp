// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/network/relay.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

namespace tutti::testing {

Relay::Relay(Faults faults) : faults_(faults), thread_([this] { run(); }) {}

Relay::~Relay() {
  stop_.store(true);
  thread_.join();
}

std::string Relay::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

// False: that side has ended.
bool Relay::pass(int from, int to, bool counts) {
  std::vector<char> bytes(faults_.chunk);
  const ssize_t count = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN;
  if (count == 0) return false;
  const auto size = static_cast<std::size_t>(count);
  if (counts && faults_.change_at >= passed_ && faults_.change_at < passed_ + size)
    bytes[faults_.change_at - passed_] ^= 1;
  if (counts) passed_ += size;
  {
    const std::lock_guard lock(mutex_);
    seen_.append(bytes.data(), size);
  }
  if (faults_.delay.count() > 0) std::this_thread::sleep_for(faults_.delay);
  for (std::size_t sent = 0; sent < size && !stop_.load();) {
    const ssize_t more = send(to, bytes.data() + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) {
      sent += static_cast<std::size_t>(more);
    } else if (more < 0 && errno == EAGAIN) {
      pollfd socket{to, POLLOUT, 0};
      poll(&socket, 1, 10);
    } else {
      return false;
    }
  }
  return true;
}

// One way that is full holds up the others: so does a thin line.
void Relay::run() {
  while (!stop_.load()) {
    std::vector<pollfd> sockets{{door_.descriptor(), POLLIN, 0}};
    for (const Way& way : ways_) {
      sockets.push_back({way.from.get(), POLLIN, 0});
      sockets.push_back({way.to.get(), POLLIN, 0});
    }
    poll(sockets.data(), sockets.size(), 10);
    while (OwnedDescriptor caller = door_.accept()) {
      OwnedDescriptor called = DataDoor::call("127.0.0.1", port_.load());
      pollfd socket{called.get(), POLLOUT, 0};
      poll(&socket, 1, 1000);
      ways_.push_back({std::move(caller), std::move(called)});
    }
    std::erase_if(ways_, [this](const Way& way) {
      return !pass(way.from.get(), way.to.get(), true) || !pass(way.to.get(), way.from.get(), false);
    });
    if (passed_ >= faults_.cut_at) ways_.clear();
  }
}

}  // namespace tutti::testing
