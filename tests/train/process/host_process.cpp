// SPDX-License-Identifier: Apache-2.0
// A program that embeds the library, and forks or ends while it trains: host_process CASE. For host_process_test.cpp.
#include <tutti/tests/train/process/static_objects.h>

#include <tutti/backend/error.h>
#include <tutti/tests/said_lines.h>
#include <tutti/tests/sanitizers.h>
#include <tutti/train/hooks/callback.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

int return_from_main() {
  use_second_objects();
  use_first_objects();
  use_first_objects();
  say("main returns");
  return 0;
}

// The last device's thread is one of the library's.
int exit_in_a_hook() {
  const auto learner = make_learner(3);
  use_second_objects();
  learner->trainer(2).register_hook(
      std::make_shared<CallbackHook>(Callbacks{.after_step = [](Trainer&, const StepReport& report) {
        if (report.global_step == 20) std::exit(7);
      }}));
  learner->train({});
  return 1;
}

// What still computes has the objects that it needs: the program leaves them to their threads.
int return_while_others_train() {
  static std::atomic<int>& steps = *new std::atomic<int>(0);
  for (const std::size_t devices : {1U, 2U})
    std::thread([devices] {
      LinearLearner& learner = *make_learner(devices).release();
      learner.main().register_hook(
          std::make_shared<CallbackHook>(Callbacks{.after_step = [](Trainer&, const StepReport&) { ++steps; }}));
      learner.train({});
    }).detach();
  while (steps < 50) std::this_thread::yield();
  return 0;
}

int fork_after_training() {
  const auto learner = make_learner(2);
  learner->train({.steps = 3});
  const pid_t child = fork();
  if (child == 0) {
    for (std::size_t d = 0; d < 2; ++d) learner->trainer(d).set_log([](std::string_view) {});
    say_error_of("the parent's learner", [&] { learner->train({.steps = 6}); });
    // ThreadSanitizer lets no child of a process with threads start one.
    if (!kIsSanitized) say_error_of("a learner of the child's", [] { make_learner(2)->train({.steps = 6}); });
    std::exit(0);
  }
  int status = 0;
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(10ms))
    if (waitpid(child, &status, WNOHANG) == child) {
      say(WIFEXITED(status) ? "the child ended with " + std::to_string(WEXITSTATUS(status)) : "the child was killed");
      learner->train({.steps = 6});
      say("the parent trained on");
      return 0;
    }
  say("the child hangs");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string name = count == 2 ? arguments[1] : "";
  if (name == "statics") return return_from_main();
  if (name == "exit_in_hook") return exit_in_a_hook();
  if (name == "training") return return_while_others_train();
  if (name == "forked") return fork_after_training();
  return 2;
}
