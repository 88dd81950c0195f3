// SPDX-License-Identifier: Apache-2.0
// Strangers at ranks' doors: a job begins beside them, and goes on.
#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <doctest/doctest.h>

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <random>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Connections of nobody, which say nothing, garbage, or the beginning of libzmq's greeting and then garbage.
class Strangers {
 public:
  explicit Strangers(int port) : address_(loopback(port)) {}

  void come(int count) {
    for (int i = 0; i < count; ++i) {
      OwnedDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)connect(connection.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
      std::string text(i % 3 == 0 ? 0 : 10 + random_() % 2000, '\0');
      for (char& each : text) each = static_cast<char>(random_());
      if (i % 3 == 2) text.replace(0, 10, std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10));
      if (!text.empty()) (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
      connections_.push_back(std::move(connection));
    }
  }
  void go() { connections_.clear(); }

 private:
  sockaddr_in address_;
  std::mt19937 random_{7};
  std::vector<OwnedDescriptor> connections_;
};

// All ranks and rank 0 still reach each other, and nobody was lost.
void check_work(std::vector<Started>& job) {
  for (std::size_t rank = 1; rank < job.size(); ++rank) {
    job[rank].channel->send(0, bytes_of("up"));
    job[0].channel->send(static_cast<int>(rank), bytes_of("down"));
  }
  const auto until = [] { return std::chrono::steady_clock::now() + 30s; };
  for (std::size_t rank = 0; rank < job.size(); ++rank)
    for (std::size_t i = 0; i < (rank == 0 ? job.size() - 1 : 1); ++i) {
      auto event = job[rank].channel->receive(until());
      while (event && std::holds_alternative<OwnPause>(*event)) event = job[rank].channel->receive(until());
      REQUIRE(event.has_value());
      CHECK(std::holds_alternative<ControlMessage>(*event));
    }
}

}  // namespace

TEST_CASE("strangers: 200 that come before, beside and after the members disturb nobody") {
  const int port = free_port();
  // A deadline that a busy machine does not miss: what is tested is that none is lost for good.
  const ControlOptions options{.silence = 20s};
  std::atomic<bool> stop = false;
  std::thread besides([&] {
    Strangers strangers(port);
    while (!stop) {
      strangers.come(200);
      std::this_thread::sleep_for(100ms);
      strangers.go();
    }
  });
  auto job = start_all({{place_of(0, 4, port), options},
                        {place_of(1, 4, port), options},
                        {place_of(2, 4, port), options},
                        {place_of(3, 4, port), options}});
  const bool all = std::ranges::all_of(job, [](const Started& each) { return each.channel != nullptr; });
  for (const Started& each : job) CHECK_MESSAGE(each.channel != nullptr, each.error);
  if (all)
    for (int i = 0; i < 10; ++i) check_work(job);
  stop = true;
  besides.join();
  REQUIRE(all);
  Strangers silent(port);
  silent.come(200);
  std::this_thread::sleep_for(2500ms);  // past the handshake's deadline
  check_work(job);
  CHECK(job[0].channel->refused().strangers > 0);
  CHECK(job[0].channel->refused().garbage == 0);
}

TEST_CASE("strangers: who comes to another rank's door and goes ends nothing") {
  const int port = free_port();
  auto job = start_all({{place_of(0, 2, port), {.silence = 20s}}, {place_of(1, 2, port), {.silence = 20s}}});
  for (const Started& each : job) REQUIRE_MESSAGE(each.channel != nullptr, each.error);
  const std::string door = job[0].channel->members()[1].address;
  Strangers strangers(std::stoi(door.substr(door.rfind(':') + 1)));
  for (int i = 0; i < 5; ++i) {
    strangers.come(30);
    std::this_thread::sleep_for(100ms);
    strangers.go();
    check_work(job);
  }
  std::this_thread::sleep_for(100ms);  // for the last ones' ends to be noticed
  check_work(job);
  CHECK(job[1].channel->refused().strangers > 0);
}

TEST_SUITE_END();
