// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/nccl/rank_processes.h>

#include <fmt/format.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

namespace tutti::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;

std::vector<char*> pointers(Texts& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// One process, killed and waited for when this goes.
class Process {
 public:
  explicit Process(const ProcessCommand& command) {
    Texts arguments = command.arguments;
    Texts environment;
    for (const auto& [name, value] : command.environment) environment.push_back(name + "=" + value);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
      if (std::ranges::none_of(command.environment, [&](const auto& added) { return added.first == name; }))
        environment.emplace_back(*entry);
    }
    const int error = posix_spawn(&id_, arguments.front().c_str(), nullptr, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
    if (error != 0) ending_ = fmt::format("did not start: {}", std::strerror(error));
  }
  ~Process() { kill("was killed"); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool ended() {
    if (ending_) return true;
    int status = 0;
    const pid_t found = waitpid(id_, &status, WNOHANG);
    if (found == 0) return false;
    if (found < 0)
      ending_ = fmt::format("was lost: {}", std::strerror(errno));
    else if (WIFSIGNALED(status))
      ending_ = fmt::format("was killed by signal {}", WTERMSIG(status));
    else
      ending_ = WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with status {}", WEXITSTATUS(status));
    return true;
  }
  bool failed() { return ended() && !ending_->empty(); }
  void kill(const std::string& why) {
    if (ended()) return;
    ::kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    ending_ = why;
  }
  const std::string& ending() const { return *ending_; }

 private:
  pid_t id_ = 0;
  std::optional<std::string> ending_;
};

}  // namespace

std::vector<std::string> run_processes(const std::vector<ProcessCommand>& commands, std::chrono::milliseconds deadline,
                                       std::chrono::milliseconds grace) {
  std::vector<std::unique_ptr<Process>> processes;
  for (const ProcessCommand& command : commands) processes.push_back(std::make_unique<Process>(command));
  const auto started = Clock::now();
  std::optional<Clock::time_point> first_failure;
  const auto all_ended = [&] { return std::ranges::all_of(processes, [](const auto& each) { return each->ended(); }); };
  while (!all_ended() && Clock::now() - started < deadline &&
         !(first_failure && Clock::now() - *first_failure > grace)) {
    if (!first_failure && std::ranges::any_of(processes, [](const auto& each) { return each->failed(); }))
      first_failure = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string why =
      first_failure ? "was killed: another failed"
                    : fmt::format("had not ended after {:g} s", std::chrono::duration<double>(deadline).count());
  std::vector<std::string> endings;
  for (const auto& each : processes) {
    each->kill(why);
    endings.push_back(each->ending());
  }
  return endings;
}

}  // namespace tutti::testing
