// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, sent to the examples as a terminal sends it.
#include <tutti/tests/exchange/temporary_folder.h>

#include <doctest/doctest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace tutti::testing;

namespace {

/// A program while it runs, and what it has written so far.
class RunningProgram {
 public:
  explicit RunningProgram(std::vector<std::string> words) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      std::signal(SIGINT, SIG_DFL);  // who tests in the background of a script has it ignored
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~RunningProgram() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(pipe_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void interrupt(int signal = SIGINT) const { REQUIRE(kill(process_, signal) == 0); }

  void wait_for(const std::string& text) {
    while (output.find(text) == std::string::npos) {
      INFO(text);
      REQUIRE_MESSAGE(read_more(), output);
    }
  }
  /// Its exit status, or 1000 and the signal that ended it.
  int end() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::string output;

 private:
  bool read_more() {
    pollfd readable{pipe_, POLLIN, 0};
    REQUIRE_MESSAGE(poll(&readable, 1, 120'000) == 1, "silent for two minutes: ", output);
    std::array<char, 4096> block{};
    const ssize_t count = read(pipe_, block.data(), block.size());
    if (count > 0) output.append(block.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  pid_t process_ = -1;
  int pipe_ = -1;
};

constexpr int kInterrupted = 130;
constexpr int kSignalled = 1000;  // and the signal

std::string text_file(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one for the money, two for the show, three to get ready and four to go\n";
  write_file(folder.file("text.txt"), text);
  return folder.file("text.txt");
}

std::vector<std::string> text_program(const TemporaryFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> words{TUTTI_TEXT, "--text", text_file(folder), "--output", folder.file("run")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("interrupt: digits says what was kept") {
  const TemporaryFolder folder;
  RunningProgram program({TUTTI_DIGITS, "--epochs", "100000", "--output", folder.file("run")});
  program.wait_for("epoch ");
  program.interrupt();
  CHECK(program.end() == kInterrupted);
  CAPTURE(program.output);
  CHECK(program.output.find("once more ends it at once") != std::string::npos);
  CHECK(program.output.find("interrupted after step ") != std::string::npos);
  CHECK(program.output.find(folder.file("run") + "/metrics.jsonl has the ") != std::string::npos);
  CHECK(program.output.find("test accuracy") == std::string::npos);
}

TEST_CASE("interrupt: text names the checkpoint that it made, and goes on there") {
  const TemporaryFolder folder;
  const std::vector<std::string> small{"--steps",        "1000000", "--batch", "2", "--context", "16",
                                       "--features",     "16",      "--heads", "2", "--layers",  "1",
                                       "--report-every", "1"};
  auto words = text_program(folder, small);
  words.insert(words.end(), {"--checkpoint-every", "1000000"});
  {
    RunningProgram program(words);
    program.wait_for("iteration 3/");
    program.interrupt(SIGTERM);
    program.wait_for("ends it at once");
    program.interrupt(SIGTERM);  // as schedulers do
    CHECK(program.end() == kInterrupted);
    CAPTURE(program.output);
    CHECK(program.output.find("the same command with --resume goes on there") != std::string::npos);
    const std::string checkpoint = folder.file("run") + "/checkpoints/checkpoint-";
    const std::size_t named = program.output.rfind(checkpoint);
    REQUIRE(named != std::string::npos);
    CHECK(std::filesystem::exists(program.output.substr(named, program.output.find(' ', named) - named) +
                                  "/manifest.json"));
  }
  words.emplace_back("--resume");
  RunningProgram again(words);
  again.wait_for("resumed from " + folder.file("run"));
  again.wait_for("iteration ");
  again.interrupt();
  CHECK(again.end() == kInterrupted);
}

TEST_CASE("interrupt: text without checkpoints says that the model is lost") {
  const TemporaryFolder folder;
  RunningProgram program(text_program(folder, {"--steps", "1000000", "--report-every", "1"}));
  program.wait_for("iteration ");
  program.interrupt();
  CHECK(program.end() == kInterrupted);
  CAPTURE(program.output);
  CHECK(program.output.find("the model is not (--checkpoint-every)") != std::string::npos);
}

TEST_CASE("interrupt: the recommender goes on with the same command") {
  const TemporaryFolder folder;
  const std::vector<std::string> words{TUTTI_RECOMMENDER, "--epochs", "1000", "--output", folder.file("run")};
  {
    RunningProgram program(words);
    program.wait_for("iteration ");
    program.interrupt();
    CHECK(program.end() == kInterrupted);
    CAPTURE(program.output);
    CHECK(program.output.find("the same command goes on there") != std::string::npos);
  }
  RunningProgram again(words);
  again.wait_for("iteration ");
  again.interrupt();
  CHECK(again.end() == kInterrupted);
}

TEST_CASE("interrupt: the second ends the process at once, whichever came first") {
  const TemporaryFolder folder;
  for (const auto& [first, second] :
       {std::pair(SIGINT, SIGINT), std::pair(SIGTERM, SIGINT), std::pair(SIGINT, SIGTERM)}) {
    RunningProgram program(text_program(folder, {"--steps", "1000000", "--batch", "64", "--context", "256",
                                                 "--features", "256", "--layers", "4", "--report-every", "1"}));
    program.wait_for("iteration ");
    program.interrupt(first);
    program.wait_for("ends it at once");
    program.interrupt(second);
    CHECK(program.end() == kSignalled + second);
    CHECK(program.output.find("interrupted after step") == std::string::npos);
  }
}
