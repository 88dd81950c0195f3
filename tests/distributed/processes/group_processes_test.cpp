// SPDX-License-Identifier: Apache-2.0
// Trainings of several processes, some of which are killed or stopped: training_process.cpp.
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/processes/control/job.h>
#include <tutti/tests/distributed/processes/training_process.h>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <random>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// A rank of a training, killed when it goes.
class Rank {
 public:
  Rank(std::size_t rank, std::size_t ranks, int port, std::size_t devices, int steps, const char* engine) {
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/processes/training_process")
            .string();
    std::vector<std::string> words{program, std::to_string(devices), std::to_string(steps)};
    if (*engine != '\0') words.emplace_back(engine);
    std::vector<std::string> variables{"TUTTI_RANK=" + std::to_string(rank),
                                       "TUTTI_WORLD_SIZE=" + std::to_string(ranks),
                                       "TUTTI_LOCAL_RANK=" + std::to_string(rank),
                                       "TUTTI_LOCAL_WORLD_SIZE=" + std::to_string(ranks),
                                       "TUTTI_RENDEZVOUS=127.0.0.1:" + std::to_string(port),
                                       "TUTTI_JOB=group-" + std::to_string(getpid()) + "-" + std::to_string(port),
                                       "TUTTI_SECRET=a secret of the groups' tests"};
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    int ends[2] = {-1, -1};
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    REQUIRE(posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers(words).data(),
                        pointers(variables).data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    close(output_);
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  /// The next line that begins with one of these; "" when there is none in 20 s.
  std::string line(std::initializer_list<const char*> beginnings) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (;;) {
      for (std::size_t end; (end = text_.find('\n')) != std::string::npos;) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        for (const char* beginning : beginnings)
          if (line.starts_with(beginning)) return line;
      }
      pollfd waiting{output_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > until || poll(&waiting, 1, 1000) < 0) return "";
      char piece[4096];
      if (waiting.revents == 0) continue;
      const ssize_t count = read(output_, piece, sizeof(piece));
      if (count <= 0) return "";
      text_.append(piece, static_cast<std::size_t>(count));
    }
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    for (std::string& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }

  pid_t pid_ = 0;
  int output_ = -1;
  std::string text_;
};

constexpr const char* kEngines[] = {"", "network", "plain"};  // words for training_process

std::vector<std::unique_ptr<Rank>> start(std::size_t ranks, std::size_t devices, int steps, const char* engine) {
  const int port = free_port();
  std::vector<std::unique_ptr<Rank>> all;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<Rank>(rank, ranks, port, devices, steps, engine));
  return all;
}

std::string digest_alone(int steps) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)});
  auto replicas = sync.replicate(TrainedModel(Generator(3)));
  run_devices(4, [&](std::size_t number) {
    Sgd optimizer(replicas[number].parameters(), 0.05, {.momentum = 0.9});
    const Device device = cpu(static_cast<std::uint16_t>(number));
    for (int i = 0; i < steps; ++i) train_step(sync, replicas[number], optimizer, device, number, i);
  });
  return "digest " + std::to_string(digest_of(replicas[0]));
}

}  // namespace

TEST_CASE("group_processes: two processes of two devices and four of one train to the bits of one process") {
  const std::string expected = digest_alone(40);
  for (const char* engine : kEngines)
    for (const std::size_t ranks : {2, 4}) {
      CAPTURE(engine);
      for (auto job = start(ranks, 4 / ranks, 40, engine); const auto& rank : job)
        CHECK(rank->line({"digest", "error"}) == expected);
    }
}

TEST_CASE("group_processes: a killed process, any rank, is named by all others") {
  for (const std::size_t turn : {0, 1, 2, 3, 4, 5}) {
    const std::size_t victim = turn % 3;
    auto job = start(3, 1, 1'000'000, kEngines[turn / 3]);
    for (const auto& rank : job) REQUIRE(rank->line({"step", "error"}).starts_with("step"));
    const std::string name = "rank " + std::to_string(victim) + " on ";
    const std::string pid = "(pid " + std::to_string(job[victim]->pid()) + ")";
    job[victim]->signal(SIGKILL);
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      if (rank == victim) continue;
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find(name) != std::string::npos);
      CHECK(error.find(pid) != std::string::npos);
    }
  }
}

TEST_CASE("group_processes: a stopped process is named by all others, and hears of it when it goes on") {
  for (const char* engine : {kEngines[0], kEngines[1]}) {
    CAPTURE(engine);
    auto job = start(3, 1, 1'000'000, engine);
    for (const auto& rank : job) REQUIRE(rank->line({"step", "error"}).starts_with("step"));
    job[1]->signal(SIGSTOP);
    for (const std::size_t rank : {0, 2}) {
      const std::string error = job[rank]->line({"error"});
      CAPTURE(error);
      CHECK(error.find("rank 1 on ") != std::string::npos);
      CHECK(error.find("has said nothing for") != std::string::npos);
    }
    job[1]->signal(SIGCONT);
    const std::string error = job[1]->line({"error"});
    CAPTURE(error);
    CHECK(error.find("rank 1 on ") != std::string::npos);
    CHECK(error.find("rank 0 on ") == std::string::npos);  // it accuses nobody
  }
}

TEST_SUITE_END();
