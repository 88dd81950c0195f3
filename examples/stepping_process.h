// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace stepping {

constexpr int kStepPipe = 3;  // in the process: what it writes to

/// This program once more, as a process that tells after each step that it made one (`tell_step`) and can be killed
/// anywhere. Its standard output is dropped.
class SteppingProcess {
 public:
  explicit SteppingProcess(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    pipe_ = ends[0];
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kStepPipe);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(&process_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) throw std::runtime_error("cannot start the run");
  }
  ~SteppingProcess() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(pipe_);
  }
  SteppingProcess(const SteppingProcess&) = delete;
  SteppingProcess& operator=(const SteppingProcess&) = delete;

  /// False once the run has ended.
  bool wait_for_step() { return wait_for_word() != 0; }
  /// What the run said next; 0 once it has ended.
  char wait_for_word() {
    pollfd readable{pipe_, POLLIN, 0};
    constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(60);
    if (poll(&readable, 1, static_cast<int>(kPatience.count())) <= 0) throw std::runtime_error("the run hangs");
    char byte = 0;
    return read(pipe_, &byte, 1) == 1 ? byte : '\0';
  }
  /// As kill -9 does. Whether that was before its end.
  bool kill_now() {
    if (process_ <= 0) return false;  // waited for: it has no number any more
    kill(process_, SIGKILL);
    return WIFSIGNALED(status());
  }
  /// Waits for its end.
  bool ends_well() {
    while (wait_for_step()) {
    }
    const int ended = status();
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
  }

 private:
  int status() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return status;
  }

  pid_t process_ = -1;
  int pipe_ = -1;
};

/// In the process: something has happened.
inline void tell(char word) {
  if (write(kStepPipe, &word, 1) != 1) std::abort();
}
/// In the process: a step has been made.
inline void tell_step() { tell('.'); }

}  // namespace stepping
