// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes, killed and stopped: control_process.cpp.
#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <doctest/doctest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <future>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr ControlOptions kOptions{.silence = std::chrono::seconds(1), .heartbeat = std::chrono::milliseconds(100)};

/// A process of the job, killed when it goes.
class Process {
 public:
  Process(int rank, int size, int port) {
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/processes/control_process")
            .string();
    std::string words[] = {program, std::to_string(rank), std::to_string(size), std::to_string(port)};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    REQUIRE(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ == 0) return;
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { kill(pid_, number); }
  pid_t pid() const { return pid_; }
  /// The exit status, or -1.
  int end() {
    int status = 0;
    for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(10ms))
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
    return -1;
  }

 private:
  pid_t pid_ = 0;
};

/// The test as one rank, the process as the other.
struct Pair {
  int port = free_port();
  Process process;
  ControlChannel channel;
  explicit Pair(int own_rank)
      : process(1 - own_rank, 2, port), channel(place_of(own_rank, 2, port), secret_of(kSecret), kOptions) {}

  void wait_until_watched() {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms))
      if (const auto clocks = channel.clocks(); clocks.size() == 1 && clocks[0].watched) return;
    FAIL("the peer is not watched");
  }
};

}  // namespace

TEST_CASE("control_processes: a rank that is killed is proven dead, on rank 0 and of rank 0") {
  for (const int own_rank : {0, 1}) {
    Pair job(own_rank);
    CHECK(job.channel.members()[static_cast<std::size_t>(1 - own_rank)].pid == job.process.pid());
    job.wait_until_watched();
    job.channel.send(1 - own_rank, bytes_of("there"));
    CHECK(next<ControlMessage>(job.channel).has_value());
    job.process.signal(SIGKILL);
    const auto died = next<PeerDied>(job.channel);
    REQUIRE(died.has_value());
    CHECK(died->rank == 1 - own_rank);
    CHECK_FALSE(next<PeerLost>(job.channel, 300ms).has_value());
    CHECK(job.channel.clocks().empty());
  }
}

TEST_CASE("control_processes: who was stopped is silent, then heard again; it knows of its pause and accuses nobody") {
  Pair job(0);
  job.channel.send(1, bytes_of("there"));
  REQUIRE(next<ControlMessage>(job.channel).has_value());
  job.process.signal(SIGSTOP);
  const auto lost = next<PeerLost>(job.channel);
  REQUIRE(lost.has_value());
  CHECK(lost->reason == PeerLost::Reason::silent);
  CHECK(std::chrono::steady_clock::now() - lost->since > 1s);
  std::this_thread::sleep_for(1s);
  job.process.signal(SIGCONT);
  const auto heard = next<PeerHeard>(job.channel);
  REQUIRE(heard.has_value());
  CHECK(heard->silent_for > 1s);
  const auto said = next<ControlMessage>(job.channel);
  REQUIRE(said.has_value());
  CHECK(text_of(*said) == "pause");
  CHECK_FALSE(next<ControlMessage>(job.channel, 500ms).has_value());
  job.channel.send(1, bytes_of("end"));
  CHECK(job.process.end() == 0);
}

TEST_CASE("control_processes: a rank that ends well says farewell: it is disconnected, not dead") {
  Pair job(0);
  job.wait_until_watched();
  job.channel.send(1, bytes_of("end"));
  CHECK(job.process.end() == 0);
  bool disconnected = false;
  while (const auto event = job.channel.receive(std::chrono::steady_clock::now() + 2s)) {
    CHECK_FALSE(std::holds_alternative<PeerDied>(*event));
    if (const auto* lost = std::get_if<PeerLost>(&*event))
      disconnected = lost->reason == PeerLost::Reason::disconnected;
  }
  CHECK(disconnected);
}

TEST_CASE("control_processes: a peer that takes nothing is lost before memory is, and the channel ends nevertheless") {
  auto job = std::make_unique<Pair>(0);
  job->process.signal(SIGSTOP);
  const std::vector<std::byte> bytes(16'384);
  for (int i = 0; i < 4000; ++i) job->channel.send(1, bytes);
  const auto lost =
      next<PeerLost>(job->channel, [](const PeerLost& each) { return each.reason == PeerLost::Reason::overflow; });
  CHECK(lost.has_value());
  // A bound, not a speed: what waits is given up.
  const auto begin = std::chrono::steady_clock::now();
  job.reset();
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

TEST_CASE("control_processes: a rank that dies during the rendezvous ends it at once") {
  const int port = free_port();
  std::vector<Started> job;
  std::atomic<bool> ended = false;
  std::thread rank_0([&] {
    job = start_all({{place_of(0, 3, port)}});
    ended = true;
  });
  // One that is killed before it has come tells nothing: the next one may come.
  for (int i = 0; i < 10 && !ended; ++i) {
    const Process process(1, 3, port);
    std::this_thread::sleep_for(2s);
  }
  rank_0.join();
  CHECK_MESSAGE(job[0].error.find("died during the rendezvous") != std::string::npos, job[0].error);
}

TEST_CASE("control_processes: when rank 0 is stopped while it waits, nobody else is named as missing") {
  const int port = free_port();
  const Process coordinator(0, 3, port);
  auto job = std::async(std::launch::async, [&] {
    return start_all({{place_of(1, 3, port), {.rendezvous = 8s, .silence = 1s}}});
  });
  const auto is_up = [&] {
    const OwnedDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    return connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  for (int i = 0; i < 500 && !is_up(); ++i) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(1s);  // for rank 0 to say that rank 2 is missing
  coordinator.signal(SIGSTOP);
  const std::string error = job.get()[0].error;
  CAPTURE(error);
  CHECK(error.find("for rank 0, which has said nothing for") != std::string::npos);
  CHECK(error.find("rank 2") == std::string::npos);
}

TEST_SUITE_END();
