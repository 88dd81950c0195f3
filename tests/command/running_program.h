// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace tutti::testing {

/// A program while it runs, and what it has written so far. It and all that its process group has left are killed at
/// the latest with this object.
class RunningProgram {
 public:
  static constexpr int kPatience = 120'000;  // ms without a word
  static constexpr int kSignalled = 1000;

  explicit RunningProgram(std::vector<std::string> words) {
    std::array<int, 2> output{};
    std::array<int, 2> error{};
    REQUIRE(pipe2(output.data(), O_CLOEXEC) == 0);
    REQUIRE(pipe2(error.data(), O_CLOEXEC) == 0);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      // Who tests in the background of a script has some ignored.
      for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) std::signal(signal, SIG_DFL);
      setpgid(0, 0);
      dup2(output[1], STDOUT_FILENO);
      dup2(error[1], STDERR_FILENO);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    setpgid(pid_, pid_);
    close(output[1]);
    close(error[1]);
    pipes_ = {output[0], error[0]};
  }
  ~RunningProgram() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close_output();
    close_pipe(1);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { REQUIRE(::kill(pid_, signal) == 0); }
  void close_output() { close_pipe(0); }  ///< its standard output finds no reader any more

  void wait_for(const std::string& text) {
    while (output.find(text) == std::string::npos && error.find(text) == std::string::npos)
      REQUIRE_MESSAGE(read_more(), "no \"", text, "\" in:\n", output, "\nerror:\n", error);
  }
  /// Reads all that comes; its exit status, or kSignalled and the signal that ended it.
  int end() {
    while (read_more()) {
    }
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// True if nothing comes for that time, of what is read.
  bool is_silent(int milliseconds) const {
    auto readable = read_pipes();
    return poll(readable.data(), readable.size(), milliseconds) == 0;
  }

  std::string output;
  std::string error;
  bool output_held = false;  ///< its standard output is not read, as by a reader that is slow

 private:
  std::array<pollfd, 2> read_pipes() const {
    return {{{output_held ? -1 : pipes_[0], POLLIN, 0}, {pipes_[1], POLLIN, 0}}};
  }

  void close_pipe(std::size_t place) {
    if (pipes_[place] >= 0) ::close(std::exchange(pipes_[place], -1));
  }

  // False once both pipes have ended.
  bool read_more() {
    auto readable = read_pipes();
    if (pipes_[0] < 0 && pipes_[1] < 0) return false;
    REQUIRE_MESSAGE(poll(readable.data(), 2, kPatience) > 0, "silent for two minutes after:\n", output, "\nerror:\n",
                    error);
    for (std::size_t i = 0; i < 2; ++i) {
      if (readable[i].revents == 0) continue;
      std::array<char, 4096> block{};
      const ssize_t count = read(pipes_[i], block.data(), block.size());
      if (count > 0)
        (i == 0 ? output : error).append(block.data(), static_cast<std::size_t>(count));
      else
        close_pipe(i);
    }
    return true;
  }

  pid_t pid_ = -1;
  std::array<int, 2> pipes_{-1, -1};
};

#ifdef TUTTI_COMMAND  // in the tests of the command
/// `tutti launch` with these options, of a script of /bin/sh.
inline std::vector<std::string> launch_script(std::vector<std::string> options, const std::string& script) {
  std::vector<std::string> words{TUTTI_COMMAND, "launch"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "/bin/sh", "-c", script});
  return words;
}
#endif

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// True once no process has that number; waits up to a minute for a kill to take effect.
inline bool is_gone(pid_t pid) {
  for (int i = 0; i < 6000; ++i) {
    if (::kill(pid, 0) != 0) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace tutti::testing
