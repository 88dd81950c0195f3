// SPDX-License-Identifier: Apache-2.0
// A process that is stopped, or forks, while it has a group: sync_process CASE. What happened is printed, a line each.
// For process_test.cpp.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/said_lines.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

void step(GradientSync& sync, const std::vector<TwoBranches>& replicas, std::size_t d) {
  say_error_of(d == 0 ? "device 0" : "device 1", [&] {
    auto step = sync.step(cpu(static_cast<std::uint16_t>(d)));
    step.backward(use(replicas[d].left, 1.0));
  });
}

// One device waits for the other, which comes well within the deadline, were it not for the stop.
int be_stopped() {
  const pid_t stopped = getpid();
  int running[2];
  if (pipe(running) != 0) return 1;
  if (fork() == 0) {
    char byte = 0;
    if (read(running[0], &byte, 1) != 1) _exit(1);
    kill(stopped, SIGSTOP);
    std::this_thread::sleep_for(6s);
    kill(stopped, SIGCONT);
    _exit(0);
  }
  GradientSync sync({cpu(0), cpu(1)}, {.warn_after = 60s, .fail_after = 4s, .warn = say});
  const auto replicas = sync.replicate(TwoBranches{});
  std::thread waiting([&] { step(sync, replicas, 0); });
  // Not before the group's threads run, and one device waits.
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(10ms);
    if (i == 50 && write(running[1], "x", 1) != 1) return 1;
  }
  step(sync, replicas, 1);
  waiting.join();
  wait(nullptr);
  return 0;
}

// The child's end, as a line; kills it if there is none.
int say_end_of(pid_t child) {
  int status = 0;
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(10ms))
    if (waitpid(child, &status, WNOHANG) == child) {
      say(WIFEXITED(status) ? "the child ended with " + std::to_string(WEXITSTATUS(status)) : "the child was killed");
      return 0;
    }
  say("the child hangs");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}

int fork_with_a_group() {
  static GradientSync sync({cpu(0), cpu(1)}, {.warn_after = 60s, .fail_after = 60s});
  static const auto replicas = sync.replicate(TwoBranches{});
  static auto posted = std::make_unique<Step>(sync.step(cpu(0)));
  static auto open = std::make_unique<Step>(sync.step(cpu(1)));
  posted->backward_async(use(replicas[0].left, 1.0));
  std::this_thread::sleep_for(300ms);
  const pid_t child = fork();
  if (child == 0) {
    say_error_of("join", [] { posted->join(); });
    say_error_of("grad", [] { (void)replicas[0].left.grad(); });
    say_error_of("step", [] { (void)sync.step(cpu(1)); });
    say_error_of("fail", [] { sync.fail(cpu(1), nullptr); });
    say_error_of("leave", [] { sync.leave(cpu(1)); });
    say_error_of("barrier", [] { sync.barrier(cpu(1)); });
    say_error_of("report", [] { (void)sync.report(); });
    say_error_of("close", [] { sync.close(); });
    open.reset();
    say("destroyed a step");
    std::exit(0);
  }
  const int ended = say_end_of(child);
  open->backward_async(use(replicas[1].left, 1.0));
  join_all(*posted, *open);
  say("the parent trained on");
  return ended;
}

int fork_with_cpu_threads() {
  set_cpu_threads(cpu(0), 3);
  const auto sum_of = [] {
    const Tensor many(Array::full({1 << 20}, 1.0, DType::f32, cpu(0)));
    return static_cast<int>(sum(many + many).item<float>());
  };
  say("the parent's sum is " + std::to_string(sum_of()));
  const pid_t child = fork();
  if (child == 0) {
    say_error_of("sum", [&] { say("the child's sum is " + std::to_string(sum_of())); });
    say_error_of("threads", [] { set_cpu_threads(cpu(0), 2); });
    say("the child's new device has threads: " + std::to_string(cpu_threads(cpu(1))));
    std::exit(0);
  }
  return say_end_of(child);
}

int make_groups() {
  for (int group = 1; group <= 2; ++group) {
    GradientSync sync({cpu(0)}, {.warn = [&](const std::string& text) { say(std::to_string(group) + ": " + text); }});
    const auto replicas = sync.replicate(TwoBranches{});
    step(sync, replicas, 0);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string name = count == 2 ? arguments[1] : "";
  if (name == "stopped") return be_stopped();
  if (name == "forked_group") return fork_with_a_group();
  if (name == "forked_threads") return fork_with_cpu_threads();
  if (name == "launched_alone") return make_groups();
  std::fprintf(stderr, "usage: sync_process stopped|forked_group|forked_threads|launched_alone\n");
  return 2;
}
