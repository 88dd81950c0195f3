// SPDX-License-Identifier: Apache-2.0
// Links that are slow, cut, watched or changed on the way, and strangers at the doors.
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/network/network_group.h>
#include <tutti/tests/distributed/engines/network/relay.h>

#include <doctest/doctest.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

void check_texts(const std::vector<std::string>& errors, const std::string& text) {
  for (const std::string& error : errors) CHECK_MESSAGE(error.find(text) != std::string::npos, error);
}

/// A group of two, whose rank 1 reaches rank 0 through the relay.
NetworkGroup relayed(Relay& relay, bool encrypt) {
  NetworkGroup group({1, 1}, small_frames(encrypt));
  group.change_places = [&relay](std::vector<NetworkMeeting::Place>& places) {
    relay.lead_to(places[0].port);
    places[0].port = relay.port();
  };
  return group;
}

void reduce_pattern(NetworkCommunicator& communicator, std::int64_t count) {
  const Array slice = Array::full({count}, 1.37, DType::f32, cpu(0));
  synchronize(cpu(0));
  communicator.all_reduce({.slices = {{slice, true}}, .ready = {}, .denominator = 2.0, .parameter = "weight"})
      ->join(cpu(0));
}

/// Connections of nobody to some doors: silent, with garbage, with a hello that claims to be a rank, or repeating what
/// a member said.
class Strangers {
 public:
  Strangers(std::vector<int> ports, std::string overheard)
      : ports_(std::move(ports)), overheard_(std::move(overheard)), thread_([this] { run(); }) {}
  ~Strangers() {
    stop_.store(true);
    thread_.join();
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  int count() const { return count_.load(); }

 private:
  void run() {
    std::mt19937 random(3);
    std::vector<OwnedDescriptor> connections;
    while (!stop_.load()) {
      for (int i = 0; i < 40; ++i) {
        OwnedDescriptor connection = DataDoor::call("127.0.0.1", ports_[random() % ports_.size()]);
        std::string text;
        if (i % 4 == 1) {
          text.resize(1 + random() % 4000);
          for (char& each : text) each = static_cast<char>(random());
        } else if (i % 4 == 2) {
          const LineHello hello = LineHandshake::hello(static_cast<int>(random() % 4), static_cast<Lane>(random() % 5),
                                                       random(), random() % 2 == 0);
          text.assign(reinterpret_cast<const char*>(&hello), sizeof hello);
          text += std::string(random() % 200, 'x');
        } else if (i % 4 == 3) {
          text = overheard_;
        }
        pollfd socket{connection.get(), POLLOUT, 0};
        poll(&socket, 1, 5);
        if (!text.empty()) (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        connections.push_back(std::move(connection));
        ++count_;
      }
      if (connections.size() > 150) connections.erase(connections.begin(), connections.begin() + 50);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::vector<int> ports_;
  std::string overheard_;
  std::atomic<bool> stop_{false};
  std::atomic<int> count_{0};
  std::thread thread_;
};

}  // namespace

TEST_CASE("network: a slow and thin link changes no bits") {
  for (const bool encrypt : {false, true}) {
    Relay relay({.delay = std::chrono::microseconds(200), .chunk = 3000});
    NetworkGroup group = relayed(relay, encrypt);
    group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
      reduce_many(communicator, group.devices, rank, 15);
    });
  }
}

TEST_CASE("network: a connection that is cut is both sides' error, wherever it is cut") {
  for (const std::size_t cut_at : {1000, 20'000, 1'000'000}) {
    Relay relay({.cut_at = cut_at});
    const auto errors =
        relayed(relay, cut_at % 1'000'000 != 0).run([&](std::size_t, NetworkCommunicator& communicator) {
          for (int i = 0; i < 1000; ++i) reduce_pattern(communicator, 5000);
        });
    CHECK_MESSAGE(errors[0].find("the connection of rank 0 to rank 1 has ended") != std::string::npos, errors[0]);
    CHECK_MESSAGE(errors[1].find("the connection of rank 1 to rank 0 has ended") != std::string::npos, errors[1]);
  }
}

TEST_CASE("network: what is changed on its way is noticed, and not used") {
  for (const std::size_t change_at : {5000, 5001, 12'345}) {
    Relay relay({.change_at = change_at});
    const auto errors = relayed(relay, true).run([&](std::size_t, NetworkCommunicator& communicator) {
      for (int i = 0; i < 100; ++i) reduce_pattern(communicator, 5000);
    });
    for (const std::string& error : errors)
      CHECK_MESSAGE((error.find("what came from rank 1 was changed on its way to rank 0") != std::string::npos ||
                     error.find("rank 1 sent what nobody waits for") != std::string::npos),
                    error);
  }
}

TEST_CASE("network: who listens on the way reads nothing of what is encrypted") {
  const std::vector<float> values(16, 1.37F);
  const std::string pattern(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  for (const bool encrypt : {false, true}) {
    Relay relay({});
    relayed(relay, encrypt).run_well([&](std::size_t, NetworkCommunicator& communicator) {
      reduce_pattern(communicator, 5000);
    });
    const std::string seen = relay.seen();
    CHECK(seen.size() > 20'000);
    CHECK((seen.find(pattern) == std::string::npos) == encrypt);
    CHECK((seen.find("weight") == std::string::npos) == encrypt);
  }
}

TEST_CASE("network: strangers hold nobody up, and are not let in") {
  Relay relay({});
  relayed(relay, true).run_well([&](std::size_t, NetworkCommunicator& communicator) {
    reduce_pattern(communicator, 100);
  });
  for (int round = 0; round < 5; ++round) {
    NetworkGroup group({1, 1, 1});
    std::unique_ptr<Strangers> strangers;
    group.change_places = [&](const std::vector<NetworkMeeting::Place>& places) {
      strangers = std::make_unique<Strangers>(std::vector<int>{places[0].port, places[1].port, places[2].port},
                                              relay.seen().substr(0, 2000));
      while (strangers->count() < 200) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
      reduce_many(communicator, group.devices, rank, 20);
    });
  }
}

TEST_CASE("network: who has another secret, or is of another epoch, is missing") {
  for (const bool other_key : {false, true}) {
    NetworkOptions options = small_frames();
    options.meeting = std::chrono::milliseconds(400);
    NetworkGroup group({1, 1}, options);
    group.change_rank = [&](std::size_t rank, NetworkMeeting& meeting, NetworkOptions&) {
      if (rank == 0) return;
      if (other_key)
        meeting.key = key_of(8);
      else
        meeting.epoch = 2;
    };
    const auto errors = group.run([](std::size_t, NetworkCommunicator&) {});
    CHECK_MESSAGE(errors[0].find("rank 0 waited 400 ms in epoch 1 for the connections of rank 1") != std::string::npos,
                  errors[0]);
    CHECK_MESSAGE(errors[1].find("for the connections of rank 0") != std::string::npos, errors[1]);
  }
}

TEST_CASE("network: processes with other options are told, with both values") {
  NetworkGroup group({1, 1});
  group.change_rank = [](std::size_t rank, NetworkMeeting&, NetworkOptions& options) { options.encrypt = rank == 0; };
  check_texts(group.run([](std::size_t, NetworkCommunicator&) {}), "rank 0 encrypts, rank 1 does not encrypt");
  group.change_rank = [](std::size_t rank, NetworkMeeting&, NetworkOptions& options) {
    options.piece_bytes = rank == 0 ? 8192 : 16384;
  };
  check_texts(group.run([](std::size_t, NetworkCommunicator&) {}), "rank 0 has pieces of 8192 bytes, rank 1 of 16384");
}

TEST_SUITE_END();
