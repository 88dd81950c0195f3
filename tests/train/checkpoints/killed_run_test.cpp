// SPDX-License-Identifier: Apache-2.0
// A training run that is killed as by kill -9, wherever it is, and begun again, ends bitwise where one that was left
// alone ends. The run is this program once more, with one test case.
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/checkpoints/checkpointed_run.h>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kFolderVariable = "TUTTI_TEST_RUN_FOLDER";
constexpr const char* kPipeVariable = "TUTTI_TEST_RUN_PIPE";
constexpr std::int64_t kSteps = 44;
constexpr std::chrono::seconds kPatience{60};

/// The run in a process of its own, which writes a byte to a pipe at each step.
class RunProcess {
 public:
  explicit RunProcess(const std::string& folder) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
    pipe_ = ends[0];
    setenv(kFolderVariable, folder.c_str(), 1);
    setenv(kPipeVariable, std::to_string(ends[1]).c_str(), 1);
    fcntl(pipe_, F_SETFD, FD_CLOEXEC);
    std::string arguments[] = {"/proc/self/exe", "--test-case=killed run: the run*"};
    char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
    posix_spawn_file_actions_t quietly;
    posix_spawn_file_actions_init(&quietly);
    posix_spawn_file_actions_addopen(&quietly, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(&process_, arguments[0].c_str(), &quietly, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&quietly);
    unsetenv(kFolderVariable);
    unsetenv(kPipeVariable);
    close(ends[1]);
    if (error != 0) throw std::runtime_error("cannot start the run");
  }
  ~RunProcess() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(pipe_);
  }
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  /// False once the run has ended.
  bool wait_for_step() {
    pollfd readable{pipe_, POLLIN, 0};
    const auto patience = std::chrono::milliseconds(kPatience).count();
    if (poll(&readable, 1, static_cast<int>(patience)) <= 0) throw std::runtime_error("the run hangs");
    char byte = 0;
    return read(pipe_, &byte, 1) == 1;
  }
  /// Whether it was killed before its end.
  bool kill_now() {
    kill(process_, SIGKILL);
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return WIFSIGNALED(status);
  }
  bool ends_well() {
    while (wait_for_step()) {
    }
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t process_ = -1;
  int pipe_ = -1;
};

bool has_unfinished(const std::string& folder) {
  if (!std::filesystem::exists(folder)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with(kUnfinishedSuffix)) return true;
  return false;
}

}  // namespace

// Also what the processes run.
TEST_CASE("killed run: the run, left alone") {
  const TemporaryFolder own;
  const char* const folder = std::getenv(kFolderVariable);
  const char* const pipe = std::getenv(kPipeVariable);
  CheckpointedRun run;
  CheckpointFolder checkpoints(
      folder != nullptr ? folder : own.file("run"),
      {.every_steps = pipe != nullptr ? 2 : 11, .every_epochs = 1, .max_to_keep = 3, .save_concurrency = 2});
  if (const auto loaded = checkpoints.load_newest(run.parts)) {
    REQUIRE(loaded->damaged.empty());
    run.resume(*loaded);
  }
  run.run(kSteps, [&](CheckpointMoment moment) {
    checkpoints.save_if_due(moment, run.parts, run.progress);
    if (pipe != nullptr && moment == CheckpointMoment::step && write(std::atoi(pipe), ".", 1) != 1) std::abort();
  });
  checkpoints.save_if_due(CheckpointMoment::end, run.parts, run.progress);
  checkpoints.wait();
  CheckpointedRun whole;
  whole.run(kSteps);
  CHECK((run.result() == whole.result()));
}

TEST_CASE("killed run: killed at twenty random points, it ends as if it had not been") {
  CheckpointedRun whole;
  whole.run(kSteps);
  const std::string expected = whole.result();
  Generator random(7);
  std::int64_t kills = 0;
  std::int64_t unfinished = 0;
  for (int chain = 0; kills < 20; ++chain) {
    CAPTURE(chain);
    REQUIRE(chain < 20);
    const TemporaryFolder folder;
    const std::string path = folder.file("run");
    for (int i = 0; i < 10; ++i) {
      RunProcess process(path);
      for (std::uint64_t left = random.below(8); left > 0; --left)
        if (!process.wait_for_step()) break;
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(4000)));
      if (!process.kill_now()) break;
      ++kills;
      unfinished += has_unfinished(path) ? 1 : 0;
    }
    RunProcess last(path);
    CHECK(last.ends_well());
    CheckpointedRun end(2);
    CheckpointFolder checkpoints(path);
    const auto loaded = checkpoints.load_newest(end.parts);
    REQUIRE(loaded);
    CHECK(loaded->progress.step == kSteps);
    CHECK(loaded->damaged.empty());
    CHECK((end.result() == expected));
  }
  CHECK(unfinished > 0);  // killed while it was writing a checkpoint
}
