// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/processes/control_channel.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A job whose ranks are threads of the test, on a port of the loopback interface.

namespace tutti::testing {

using namespace std::chrono_literals;

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

/// Keeps a port for this process: no other test takes it while this lives.
class ReservedPort {
 public:
  explicit ReservedPort(int port) : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const std::string text = "tutti-test-port-" + std::to_string(port);
    std::copy(text.begin(), text.end(), name.sun_path + 1);  // abstract: it goes with the process
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (bind(descriptor_.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) descriptor_ = OwnedDescriptor();
  }
  bool is_kept() const { return static_cast<bool>(descriptor_); }

 private:
  OwnedDescriptor descriptor_;
};

/// A port where nobody listens, below those that systems give to connections: whoever asked for one of those could get
/// it before rank 0 binds it, and one that knocks at it before could be connected to itself. No other test of this
/// machine gets it, until this process has asked for 64 more.
inline int free_port() {
  constexpr int kFirst = 10'000;
  constexpr int kCount = 22'000;
  static std::mutex mutex;
  static std::deque<ReservedPort> reserved;
  static int taken = getpid() * 131;
  const std::lock_guard lock(mutex);
  for (int tries = 0; tries < kCount; ++tries) {
    const int port = kFirst + taken++ % kCount;
    ReservedPort own(port);
    const OwnedDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    if (!own.is_kept() || bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
    reserved.push_back(std::move(own));
    if (reserved.size() > 64) reserved.pop_front();
    return port;
  }
  raise<Error>("no free port");
}

inline LaunchPlace place_of(int rank, int size, int port) {
  return {.launcher = "test",
          .rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .address = "127.0.0.1",
          .port = port,
          .job = "control test"};
}

inline const char* const kSecret = "a secret of the control channel's tests";

inline JobSecret secret_of(const std::string& text) {
  return JobSecret(EnvironmentReader([&](const std::string& name) -> std::optional<std::string> {
    return name == "TUTTI_SECRET" ? std::optional(text) : std::nullopt;
  }));
}

/// One rank's channel, or why it has none.
struct Started {
  std::unique_ptr<ControlChannel> channel;
  std::string error;
};

struct Start {
  LaunchPlace place;
  ControlOptions options = {};
  std::string secret = kSecret;
};

/// Starts all at once, each on a thread of its own.
inline std::vector<Started> start_all(const std::vector<Start>& starts) {
  std::vector<Started> started(starts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < starts.size(); ++i)
    threads.emplace_back([&started, &starts, i] {
      try {
        started[i].channel =
            std::make_unique<ControlChannel>(starts[i].place, secret_of(starts[i].secret), starts[i].options);
      } catch (const Error& error) {
        started[i].error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return started;
}

inline std::vector<Started> start_job(int size, const ControlOptions& options = {}) {
  const int port = free_port();
  std::vector<Start> starts;
  for (int rank = 0; rank < size; ++rank) starts.push_back({place_of(rank, size, port), options});
  return start_all(starts);
}

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::string text_of(const ControlMessage& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

/// The next event of this type, if `accepts` takes it; others are passed over. None after `patience`.
template <class Event, class Accepts>
std::optional<Event> next(ControlChannel& channel, Accepts accepts, std::chrono::milliseconds patience = 30s) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (auto event = channel.receive(until))
    if (auto* found = std::get_if<Event>(&*event); found != nullptr && accepts(*found)) return std::move(*found);
  return std::nullopt;
}

template <class Event> std::optional<Event> next(ControlChannel& channel, std::chrono::milliseconds patience = 30s) {
  return next<Event>(
      channel, [](const Event&) { return true; }, patience);
}

}  // namespace tutti::testing
