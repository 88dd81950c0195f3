// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// What a rank of a training is started with.
struct RankStart {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  int port = 0;
  std::size_t devices = 1;
  int steps = 0;
  std::string engine{};               ///< words for training_process
  std::size_t first = 0;              ///< number of its first device, for data
  std::string address = "127.0.0.1";  ///< rank 0's
  std::vector<std::string> inside{};  ///< command that runs it elsewhere
  std::size_t local_ranks = 0;        ///< number of ranks on its host; 0: all
  std::vector<std::string> then{};    ///< rank, size and steps of its training after an error
  bool second_job = false;            ///< it begins in the job of those that train after an error
  std::string way{};                  ///< of training_process; "": as ever
  /// Milliseconds after which others count as lost. Long where nobody is to be: a busy machine may leave a process
  /// without a processor for seconds.
  int silence = 20'000;
  int rendezvous = 60'000;  ///< milliseconds
};

/// A rank of a training, training_process.cpp, killed when it goes.
class TrainingRank {
 public:
  explicit TrainingRank(const RankStart& start) {
    std::vector<std::string> words = start.inside;
    words.push_back(
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "distributed/processes/training_process")
            .string());
    const bool one_host = start.local_ranks == 0;
    for (const std::string& word :
         {std::to_string(start.devices), std::to_string(start.steps),
          start.engine.empty() ? std::string("automatic") : start.engine, std::to_string(start.first)})
      words.push_back(word);
    words.insert(words.end(), start.then.begin(), start.then.end());
    const std::string job = "group-" + std::to_string(getpid()) + "-" + std::to_string(start.port);
    std::vector<std::string> variables{
        "TUTTI_RANK=" + std::to_string(start.rank),
        "TUTTI_WORLD_SIZE=" + std::to_string(start.ranks),
        "TUTTI_LOCAL_RANK=" + std::to_string(one_host ? start.rank : 0),
        "TUTTI_LOCAL_WORLD_SIZE=" + std::to_string(one_host ? start.ranks : start.local_ranks),
        "TUTTI_RENDEZVOUS=" + start.address + ":" + std::to_string(start.port),
        "TUTTI_JOB=" + job + (start.second_job ? kSecondJob : ""),
        "TUTTI_SECRET=a secret of the groups' tests",
        "TRAINED_WAY=" + start.way,
        "TRAINED_SILENCE=" + std::to_string(start.silence),
        "TRAINED_RENDEZVOUS=" + std::to_string(start.rendezvous)};
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    int ends[2] = {-1, -1};
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    REQUIRE(posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                         pointers(variables).data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  TrainingRank(const TrainingRank&) = delete;
  TrainingRank& operator=(const TrainingRank&) = delete;
  ~TrainingRank() {
    close(output_);
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  /// Waits until it has taken its first steps.
  void await_steps() {
    const std::string heard = line({"step", "error"});
    CAPTURE(heard);
    REQUIRE(heard.starts_with("step"));
  }
  /// The next line that begins with one of these; "" when there is none in a minute.
  std::string line(std::initializer_list<const char*> beginnings) {
    const auto until = std::chrono::steady_clock::now() + 60s;
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

/// Last line of a training on that many devices of one process.
inline std::string digest_alone(int steps, std::size_t devices = 4, Overlap overlap = Overlap::immediate,
                                std::shared_ptr<GradientCompression> compression = nullptr) {
  std::vector<Device> all;
  for (std::size_t i = 0; i < devices; ++i) all.push_back(cpu(static_cast<std::uint16_t>(i)));
  GradientSync sync(all, {.overlap = overlap, .compression = std::move(compression)});
  auto replicas = sync.replicate(TrainedModel(Generator(3)));
  run_devices(devices, [&](std::size_t number) {
    const auto optimizer = trained_sgd(replicas[number].parameters());
    const Device device = cpu(static_cast<std::uint16_t>(number));
    for (int i = 0; i < steps; ++i) train_step(sync, replicas[number], *optimizer, device, number, i);
    if (overlap == Overlap::double_buffered && sync.flush(device)) optimizer->step();
  });
  return "digest " + std::to_string(digest_of(replicas[0]));
}

}  // namespace tutti::testing
