// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/death_watch.h>

#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace tutti::control {

namespace {

constexpr std::size_t kMostStrangers = 64;
constexpr std::chrono::seconds kPatience{2};

// What an event of epoll is about, above the number of a rank or connection.
enum What : std::uint64_t { of_listener = 1, of_stranger = 2, of_connection = 3, of_process = 4 };
std::uint64_t key(What what, int number) { return (what << 32U) | static_cast<std::uint32_t>(number); }

/// The one message of each end.
struct Greeting {
  std::uint32_t rank = 0;
  JobSecret::Token token{};
};

struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;
  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    // A zero in front makes it abstract: no file, gone with its socket.
    const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

OwnedDescriptor unix_socket() {
  return OwnedDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::optional<ucred> credentials(const OwnedDescriptor& connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

bool has_own_user(const OwnedDescriptor& connection) {
  const auto peer = credentials(connection);
  return peer && peer->uid == geteuid();
}

bool has_ended(const OwnedDescriptor& connection) {
  char byte = 0;
  return recv(connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/// The process at the other end. None: of another pid namespace. A process that ended meanwhile may have left its
/// number to another: then its connection has ended, too.
OwnedDescriptor process_of(const OwnedDescriptor& connection) {
  const auto peer = credentials(connection);
  if (!peer || peer->pid <= 0) return {};
  OwnedDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0)));
  return has_ended(connection) ? OwnedDescriptor() : std::move(process);
}

}  // namespace

DeathWatch::DeathWatch(int rank, std::string name, std::vector<JobSecret::Token> tokens)
    : rank_(rank), name_(std::move(name)), tokens_(std::move(tokens)), events_(epoll_create1(EPOLL_CLOEXEC)) {
  if (rank_ == 0) listen();
}

DeathWatch::~DeathWatch() {
  const auto say = [](const OwnedDescriptor& connection) {
    send(connection.get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  for (const auto& [rank, watched] : watched_) say(watched.connection);
  // Who has our greeting, and whose answer has not been read.
  for (const auto& [number, stranger] : strangers_) say(stranger.connection);
  sodium_memzero(tokens_.data(), tokens_.size() * sizeof tokens_[0]);
}

bool DeathWatch::add(const OwnedDescriptor& descriptor, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  return epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) == 0;
}

// Without a listener (somebody else has the name) nothing is proven, and the others' clocks say that nobody is watched.
void DeathWatch::listen() {
  const UnixAddress address(name_);
  OwnedDescriptor listener = unix_socket();
  if (listener && bind(listener.get(), address.get(), address.size) == 0 && ::listen(listener.get(), 64) == 0 &&
      add(listener, key(of_listener, 0)))
    listener_ = std::move(listener);
}

void DeathWatch::greet(const OwnedDescriptor& connection) {
  Greeting greeting{static_cast<std::uint32_t>(rank_), tokens_[static_cast<std::size_t>(rank_)]};
  send(connection.get(), &greeting, sizeof greeting, MSG_NOSIGNAL | MSG_DONTWAIT);
  sodium_memzero(&greeting, sizeof greeting);
}

void DeathWatch::reach() {
  if (rank_ == 0 || reached_) return;
  const UnixAddress address(name_);
  OwnedDescriptor connection = unix_socket();
  if (!connection || connect(connection.get(), address.get(), address.size) != 0) return;
  const int number = connection.get();
  if (!has_own_user(connection) || !add(connection, key(of_stranger, number))) return;
  greet(connection);
  strangers_[number] = {std::move(connection), std::chrono::steady_clock::now() + kPatience};
  reached_ = true;
}

void DeathWatch::accept_all() {
  for (;;) {
    OwnedDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) return;
    const int number = connection.get();
    if (strangers_.size() >= kMostStrangers || !has_own_user(connection) || !add(connection, key(of_stranger, number)))
      continue;
    strangers_[number] = {std::move(connection), std::chrono::steady_clock::now() + kPatience};
  }
}

// A stranger told something, or went.
void DeathWatch::meet(int number) {
  const auto found = strangers_.find(number);
  if (found == strangers_.end()) return;
  OwnedDescriptor connection = std::move(found->second.connection);
  strangers_.erase(found);
  Greeting greeting;
  const ssize_t size = recv(connection.get(), &greeting, sizeof greeting, MSG_DONTWAIT | MSG_TRUNC);
  const int rank = greeting.rank < tokens_.size() ? static_cast<int>(greeting.rank) : rank_;
  const bool known = size == sizeof greeting && (rank_ == 0) == (rank != 0) && !watched_.contains(rank) &&
                     sodium_memcmp(greeting.token.data(), tokens_[greeting.rank].data(), greeting.token.size()) == 0;
  sodium_memzero(&greeting, sizeof greeting);
  if (!known) {
    reached_ = watches(0);  // another rank 0 may come
    return;
  }
  if (rank_ == 0) greet(connection);
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection.get(), nullptr);
  OwnedDescriptor process = process_of(connection);
  const Watched& kept = watched_[rank] = {std::move(connection), std::move(process)};
  const bool connected = add(kept.connection, key(of_connection, rank));
  if ((kept.process && !add(kept.process, key(of_process, rank))) || !connected) watched_.erase(rank);
}

// What comes over the connection of a watched rank: a farewell, or its end. True: proven dead.
bool DeathWatch::hear(int rank) {
  const auto found = watched_.find(rank);
  if (found == watched_.end()) return false;
  char byte = 0;
  const ssize_t size = recv(found->second.connection.get(), &byte, 1, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size > 0) {
    watched_.erase(found);  // lives on, without its channel
    return false;
  }
  if (!found->second.process) return true;
  // A process closes its files before its last thread has ended: the pidfd tells that.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, found->second.connection.get(), nullptr);
  return false;
}

void DeathWatch::drop_late() {
  const Time now = std::chrono::steady_clock::now();
  std::erase_if(strangers_, [&](const auto& each) { return each.second.until < now; });
  reached_ = reached_ && (watches(0) || !strangers_.empty());
}

std::vector<int> DeathWatch::look() {
  std::vector<int> dead;
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(events_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
    const int number = static_cast<int>(what & 0xffffffffU);
    switch (static_cast<What>(what >> 32U)) {
      case of_listener: accept_all(); break;
      case of_stranger: meet(number); break;
      case of_connection:
        if (hear(number)) dead.push_back(number);
        break;
      case of_process:  // a farewell may have come before
        if (hear(number) || watches(number)) dead.push_back(number);
        break;
    }
  }
  for (const int rank : dead) watched_.erase(rank);
  drop_late();
  return dead;
}

}  // namespace tutti::control
