// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/processes/control/job.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <variant>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

void say_all(std::vector<Started>& job) {
  for (const Started& each : job) REQUIRE_MESSAGE(each.channel != nullptr, each.error);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Inodes of this process's sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// Local addresses, in the kernel's digits, at which this process listens.
std::vector<std::string> listening() {
  const std::set<std::string> own = own_sockets();
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >> inode;
      if (state == "0A" && own.contains(inode)) addresses.push_back(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

}  // namespace

TEST_CASE("control_channel: every rank knows all, and each listens at an address of its own") {
  for (const int size : {2, 4}) {
    auto job = start_job(size);
    say_all(job);
    std::set<std::string> addresses;
    for (const Started& each : job) {
      const auto& members = each.channel->members();
      REQUIRE(members.size() == static_cast<std::size_t>(size));
      for (int rank = 0; rank < size; ++rank) {
        const ControlMember& member = members[static_cast<std::size_t>(rank)];
        CHECK(member.rank == rank);
        CHECK(member.pid == getpid());
        CHECK(member.address.starts_with("127.0.0.1:"));
        addresses.insert(member.address);
      }
    }
    CHECK(addresses.size() == static_cast<std::size_t>(size));
  }
}

TEST_CASE("control_channel: a process alone has a channel, too") {
  auto job = start_job(1);
  say_all(job);
  CHECK(job[0].channel->members().size() == 1);
  CHECK_FALSE(job[0].channel->receive(std::chrono::steady_clock::now()).has_value());
}

TEST_CASE("control_channel: messages of each sending thread come in order, from both sides") {
  auto job = start_job(3);
  say_all(job);
  constexpr int kThreads = 3, kMessages = 200;
  std::vector<std::thread> threads;
  for (int rank = 1; rank < 3; ++rank)
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&job, rank, t] {
        for (int i = 0; i < kMessages; ++i) {
          job[static_cast<std::size_t>(rank)].channel->send(0, bytes_of(fmt::format("{} {}", t, i)));
          job[0].channel->send(rank, bytes_of(fmt::format("{} {}", t + kThreads * rank, i)));
        }
      });
  for (std::thread& thread : threads) thread.join();
  const auto check = [](ControlChannel& channel, int messages) {
    std::map<std::pair<int, int>, int> seen;
    for (int i = 0; i < messages; ++i) {
      const auto message = next<ControlMessage>(channel);
      REQUIRE(message.has_value());
      int thread = 0, number = 0;
      std::istringstream(text_of(*message)) >> thread >> number;
      const int before = std::exchange(seen[{message->from, thread}], number + 1);
      if (before != number) FAIL("message ", number, " of thread ", thread, " came after ", before);
    }
  };
  check(*job[0].channel, 2 * kThreads * kMessages);
  check(*job[1].channel, kThreads * kMessages);
  check(*job[2].channel, kThreads * kMessages);
}

TEST_CASE("control_channel: a burst of more than a connection's queue holds arrives, also when its sender leaves") {
  auto job = start_job(2, {.silence = 30s});
  say_all(job);
  constexpr int kMessages = 10'000;
  for (int i = 0; i < kMessages; ++i) job[1].channel->send(0, bytes_of(std::to_string(i)));
  for (int i = 0; i < kMessages; ++i) {
    const auto message = next<ControlMessage>(*job[0].channel);
    REQUIRE(message.has_value());
    if (text_of(*message) != std::to_string(i)) FAIL("message ", i, " is ", text_of(*message));
  }
  for (int i = 0; i < 100; ++i) job[1].channel->send(0, bytes_of("last"));
  job[1].channel.reset();
  for (int i = 0; i < 100; ++i) REQUIRE(next<ControlMessage>(*job[0].channel).has_value());
}

TEST_CASE("control_channel: the largest message, an empty one, and what is refused") {
  auto job = start_job(3);
  say_all(job);
  job[1].channel->send(0, std::vector<std::byte>(ControlChannel::kMostBytes, std::byte{3}));
  job[1].channel->send(0, {});
  const auto large = next<ControlMessage>(*job[0].channel);
  REQUIRE(large.has_value());
  CHECK(large->bytes == std::vector<std::byte>(ControlChannel::kMostBytes, std::byte{3}));
  const auto empty = next<ControlMessage>(*job[0].channel);
  REQUIRE(empty.has_value());
  CHECK(empty->bytes.empty());
  CHECK_THROWS_WITH_AS(job[0].channel->send(1, std::vector<std::byte>(ControlChannel::kMostBytes + 1)),
                       doctest::Contains("a message of 65001 bytes to rank 1: at most 65000"), Error);
  CHECK_THROWS_WITH_AS(job[1].channel->send(2, {}), doctest::Contains("rank 1 of 3 has no connection to rank 2"),
                       Error);
  CHECK_THROWS_AS(job[0].channel->send(0, {}), Error);
  CHECK_THROWS_AS(job[0].channel->send(3, {}), Error);
}

TEST_CASE("control_channel: heartbeats carry progress, and both clocks can be read") {
  auto job = start_job(2, {.silence = 2s, .heartbeat = 20ms});
  say_all(job);
  const auto clock = [&](auto good) {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms))
      if (const auto clocks = job[0].channel->clocks(); clocks.size() == 1 && good(clocks[0])) return true;
    return false;
  };
  job[1].channel->set_progress(7);
  CHECK(clock([](const PeerClock& each) { return each.rank == 1 && each.progress == 7; }));
  // It beats, though it does nothing.
  CHECK(clock([](const PeerClock& each) { return each.progress_still_for > 500ms && each.silent_for < 500ms; }));
  job[1].channel->set_progress(8);
  CHECK(clock([](const PeerClock& each) { return each.progress == 8 && each.progress_still_for < 500ms; }));
  CHECK(clock([](const PeerClock& each) { return each.watched; }));
}

TEST_CASE("control_channel: who leaves is disconnected, and not dead") {
  auto job = start_job(3);
  say_all(job);
  job[1].channel->send(0, bytes_of("the last"));
  job[1].channel.reset();
  const auto last = next<ControlMessage>(*job[0].channel);
  REQUIRE(last.has_value());
  CHECK(text_of(*last) == "the last");
  const auto lost = next<PeerLost>(*job[0].channel);
  REQUIRE(lost.has_value());
  CHECK(lost->rank == 1);
  CHECK(lost->reason == PeerLost::Reason::disconnected);
  CHECK_FALSE(next<PeerDied>(*job[0].channel, 300ms).has_value());
  job[0].channel->send(1, {});  // goes nowhere
  // Rank 0's end reaches the one that is left.
  job[0].channel.reset();
  const auto end = next<PeerLost>(*job[2].channel);
  REQUIRE(end.has_value());
  CHECK(end->rank == 0);
  CHECK(end->reason == PeerLost::Reason::disconnected);
}

// Whoever sends may find that a connection has ended before what came over it is read.
TEST_CASE("control_channel: last words come before the end, also to one that sends meanwhile") {
  constexpr int kWords = 20;
  for (const std::size_t leaves : {1U, 0U})
    for (int turn = 0; turn < 20; ++turn) {
      auto job = start_job(2);
      say_all(job);
      ControlChannel& stays = *job[1 - leaves].channel;
      std::atomic<bool> over{false};
      std::thread sender([&] {
        for (; !over.load(); std::this_thread::sleep_for(20us)) stays.send(static_cast<int>(leaves), {});
      });
      for (int i = 0; i < kWords; ++i) job[leaves].channel->send(static_cast<int>(1 - leaves), bytes_of("word"));
      job[leaves].channel.reset();
      int words = 0;
      bool ended = false;
      while (const auto event = stays.receive(std::chrono::steady_clock::now() + (ended ? 100ms : 10s))) {
        if (std::holds_alternative<ControlMessage>(*event)) ++words;
        if (std::holds_alternative<PeerLost>(*event)) {
          CHECK(words == kWords);
          ended = true;
        }
      }
      over = true;
      sender.join();
      CHECK(ended);
    }
}

TEST_CASE("control_channel: no socket listens at a wildcard") {
  auto job = start_job(2);
  say_all(job);
  const auto addresses = listening();
  CHECK(addresses.size() == 2);
  for (const std::string& address : addresses) CHECK(address == "0100007F");
}

TEST_CASE("control_channel: IPv6") {
  const int port = free_port();
  std::vector<Start> starts{{place_of(0, 2, port)}, {place_of(1, 2, port)}};
  for (Start& each : starts) each.place.address = "::1";
  if (!std::filesystem::exists("/proc/net/if_inet6")) {
    MESSAGE("this machine has no IPv6: not run");
    return;
  }
  auto job = start_all(starts);
  say_all(job);
  CHECK(job[1].channel->members()[0].address == fmt::format("[::1]:{}", port));
  job[1].channel->send(0, bytes_of("six"));
  CHECK(next<ControlMessage>(*job[0].channel).has_value());
}

TEST_CASE("control_channel: loopback needs no secret, other addresses do") {
  const int port = free_port();
  auto job = start_all({{place_of(0, 2, port), {}, ""}, {place_of(1, 2, port), {}, ""}});
  say_all(job);
  LaunchPlace place = place_of(1, 2, port);
  place.address = "192.0.2.1";  // for documents: nobody's
  const auto refused = start_all({{place, {.rendezvous = 1s}, ""}});
  CHECK_MESSAGE((contains(refused[0].error, "TUTTI_SECRET_FILE") || contains(refused[0].error, "there is no way")),
                refused[0].error);
}

TEST_CASE("control_channel: addresses that cannot be meant") {
  const auto error = [](auto change) {
    LaunchPlace place = place_of(0, 2, free_port());
    change(place);
    return start_all({{place, {.rendezvous = 1s}}})[0].error;
  };
  const auto refused = [&](const std::string& text, auto change) {
    const std::string found = error(change);
    CHECK_MESSAGE(contains(found, text), found);
  };
  refused("test does not tell the address", [](LaunchPlace& place) { place.address = ""; });
  refused("test does not tell the port", [](LaunchPlace& place) { place.port = 0; });
  refused("stands for all", [](LaunchPlace& place) { place.address = "0.0.0.0"; });
  refused("stands for all", [](LaunchPlace& place) { place.address = "::"; });
  refused("\"192.0.2.1\" (192.0.2.1) is no address of this host",
          [](LaunchPlace& place) { place.address = "192.0.2.1"; });
  refused("1 of the job's 2 processes are on other hosts", [](LaunchPlace& place) { place.local_size = 1; });
  refused("has no address", [](LaunchPlace& place) { place.address = "no name at all"; });
  refused("the job's name has 300 bytes", [](LaunchPlace& place) { place.job = std::string(300, 'j'); });
  refused("rank 2 of 2 processes", [](LaunchPlace& place) { place.rank = 2; });
}

TEST_CASE("control_channel: options out of range are named") {
  const auto error = [](const ControlOptions& options) {
    return start_all({{place_of(0, 2, free_port()), options}})[0].error;
  };
  CHECK(contains(error({.rendezvous = 0s}), "[ControlOptions::rendezvous] 0 ms: it must be 1 ms or more"));
  CHECK(contains(error({.silence = 1ms}), "[ControlOptions::silence] 1 ms"));
  CHECK(contains(error({.silence = 100ms, .heartbeat = 100ms}), "it must be below `silence`, 100 ms"));
}

TEST_SUITE_END();
