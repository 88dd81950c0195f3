// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/segment_exchange.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_socket.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kBytes = 8192;

// Ranks' threads exchange segments whose first byte is their rank; each checks what it got.
std::vector<std::string> meet(const std::string& name, const std::vector<int>& ranks,
                              std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t place = 0; place < ranks.size(); ++place)
    threads.emplace_back([&, place] {
      try {
        const auto own = SharedSegment::make("test", kBytes);
        own->data()[0] = static_cast<std::byte>(ranks[place]);
        const auto all = exchange_segments({name, 5, ranks, ranks[place]}, own, patience);
        for (std::size_t other = 0; other < ranks.size(); ++other)
          if (all.at(other)->data()[0] != static_cast<std::byte>(ranks[other])) errors[place] = "another's segment";
      } catch (const std::exception& error) {
        errors[place] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

bool all_good(const std::vector<std::string>& errors) {
  for (const std::string& error : errors)
    if (!error.empty()) MESSAGE(error);
  return errors == std::vector<std::string>(errors.size());
}

OwnedDescriptor connect_when_there(const std::string& address) {
  for (int turn = 0; turn < 20'000; ++turn) {
    if (OwnedDescriptor connection = connect_to(address)) return connection;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace

TEST_CASE("shared_memory: all ranks meet, of whatever numbers, and leave no descriptor") {
  const std::size_t before = open_descriptors();
  for (const std::vector<int>& ranks : {std::vector<int>{0}, {0, 1}, {3, 5, 6}, {0, 1, 2, 3, 4, 5, 6, 7}})
    CHECK(all_good(meet(fresh_name(), ranks)));
  CHECK(open_descriptors() == before);
}

TEST_CASE("shared_memory: the ranks that do not come are named") {
  const std::string name = fresh_name();
  const auto own = SharedSegment::make("test", kBytes);
  CHECK_THROWS_WITH_AS((void)exchange_segments({name, 5, {0, 1, 2, 4}, 2}, own, std::chrono::milliseconds(60)),
                       doctest::Contains("rank 2 waited 60 ms in epoch 5 for the memory of rank 0, 1, 4"), SyncError);
  CHECK_THROWS_WITH_AS((void)exchange_segments({name, 5, {0, 1}, 2}, own, std::chrono::milliseconds(60)),
                       doctest::Contains("must ascend and have rank 2 among them"), SyncError);
  const OwnedDescriptor taken = listen_at(segment_address({name, 5, {0, 1}, 1}, 1));
  CHECK_THROWS_WITH_AS((void)exchange_segments({name, 5, {0, 1}, 1}, own, std::chrono::milliseconds(60)),
                       doctest::Contains("in use"), Error);
}

TEST_CASE("shared_memory: strangers who are silent, send garbage or lie hold nobody up") {
  const std::string name = fresh_name();
  const std::vector<int> ranks{0, 1, 2};
  const SegmentMeeting meeting{name, 5, ranks, 0};
  std::vector<OwnedDescriptor> silent;
  std::thread strangers([&] {
    const auto segment = SharedSegment::make("stranger", kBytes);
    const OwnedDescriptor growing(memfd_create("growing", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    (void)!ftruncate(growing.get(), kBytes);
    const SegmentHello good{.epoch = 5, .rank = 2, .ranks = 3, .bytes = kBytes};
    for (int turn = 0; turn < 200; ++turn) {
      OwnedDescriptor stranger = connect_to(segment_address(meeting, turn % 2));
      if (!stranger) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      SegmentHello hello = good;
      switch (turn % 8) {
        case 0: hello.epoch = 4; break;
        case 1: hello.bytes = kBytes * 2; break;
        case 2: hello.rank = 77; break;
        case 3: hello.magic = 1; break;
        case 4: send(stranger.get(), &good, sizeof good, MSG_NOSIGNAL); break;  // without a segment
        case 5: send(stranger.get(), name.data(), name.size(), MSG_NOSIGNAL); break;
        case 6: send_segment(stranger.get(), good, growing.get()); break;
        default: break;
      }
      if (turn % 8 < 4) send_segment(stranger.get(), hello, segment->descriptor());
      if (turn % 3 != 0) silent.push_back(std::move(stranger));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(all_good(meet(name, ranks)));
  strangers.join();
}

TEST_CASE("shared_memory: what is wrong with who came stands in the error") {
  const std::string name = fresh_name();
  const std::vector<int> ranks{0, 1};
  std::thread stranger([&] {
    const auto segment = SharedSegment::make("stranger", kBytes);
    const OwnedDescriptor connection = connect_when_there(segment_address({name, 5, ranks, 0}, 0));
    send_segment(connection.get(), {.epoch = 4, .rank = 1, .ranks = 2, .bytes = kBytes}, segment->descriptor());
    char byte = 0;
    for (int turn = 0; turn < 10'000 && recv(connection.get(), &byte, 1, 0) < 0; ++turn)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const auto own = SharedSegment::make("test", kBytes);
  CHECK_THROWS_WITH_AS((void)exchange_segments({name, 5, ranks, 0}, own, std::chrono::milliseconds(400)),
                       doctest::Contains("who came as rank 1 was not let in, as it is of epoch 4"), SyncError);
  stranger.join();
}

TEST_CASE("shared_memory: another user's process is sent away unheard") {
  if (geteuid() != 0) {
    MESSAGE("only root can become another user: not tested");
    return;
  }
  const std::string name = fresh_name();
  const SegmentMeeting meeting{name, 5, {0, 1}, 1};
  const OwnedDescriptor listener = listen_at(segment_address(meeting, 0));
  const pid_t child = fork();
  if (child == 0) {
    // A stranger's process: system calls alone.
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const std::string address = segment_address(meeting, 0);
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path + 1, address.data(), address.size());
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(connection, reinterpret_cast<sockaddr*>(&place),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size())) != 0)
      _exit(3);
    char byte = 0;
    _exit(recv(connection, &byte, 1, 0) == 0 ? 0 : 4);  // the end, and nothing else
  }
  REQUIRE(child > 0);
  int status = -1;
  for (int turn = 0; turn < 10'000; ++turn) {
    CHECK_FALSE(accept_from(listener.get()));
    if (waitpid(child, &status, WNOHANG) == child) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(status == 0);
}

TEST_CASE("shared_memory: memory of others is looked at before it is mapped") {
  const auto descriptor_of = [](off_t bytes, int seals) {
    OwnedDescriptor made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(ftruncate(made.get(), bytes) == 0);
    REQUIRE(fcntl(made.get(), F_ADD_SEALS, seals) == 0);
    return made;
  };
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  CHECK_THROWS_WITH_AS((void)SharedSegment::map(descriptor_of(4096, F_SEAL_SHRINK | F_SEAL_GROW), 4096, "rank 3"),
                       doctest::Contains("the memory of rank 3 is not sealed"), Error);
  CHECK_THROWS_WITH_AS((void)SharedSegment::map(descriptor_of(4096, kAll), 8192, "rank 3"),
                       doctest::Contains("the memory of rank 3 has 4096 bytes, not 8192"), Error);
  CHECK_THROWS_AS((void)SharedSegment::map(OwnedDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)), 4096, "rank 3"),
                  Error);
  CHECK(SharedSegment::map(descriptor_of(4096, kAll), 4096, "rank 3")->bytes() == 4096);
  const auto own = SharedSegment::make("test", 4096);
  CHECK(ftruncate(own->descriptor(), 0) != 0);
  CHECK(ftruncate(own->descriptor(), 8192) != 0);
}

TEST_SUITE_END();
