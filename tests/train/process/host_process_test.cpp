// SPDX-License-Identifier: Apache-2.0
// What a program that embeds the library finds as it left it, and how it may end: host_process.cpp.
#include <tutti/optim/sgd.h>
#include <tutti/tests/examples/program.h>
#include <tutti/tests/sanitizers.h>
#include <tutti/tests/train/linear_training.h>

#include <xmmintrin.h>

#include <doctest/doctest.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

// At most a minute; one that hangs is killed. What threads hold when their process forks or ends under them is lost,
// which LeakSanitizer would tell.
Outcome run_host(const std::string& arguments, const std::string& environment) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "train/process/host_process";
  return run_program(environment + " ASAN_OPTIONS=detect_leaks=0 timeout -s KILL 60 " + program.string() + " " +
                     arguments);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kStreams[] = {"TUTTI_CPU_ASYNC=0", "TUTTI_CPU_ASYNC=0 TUTTI_CPU_THREADS=2", "TUTTI_CPU_ASYNC=1"};

/// What a process does at each signal.
std::vector<std::pair<void (*)(int), int>> signal_actions() {
  std::vector<std::pair<void (*)(int), int>> all;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0) all.emplace_back(action.sa_handler, action.sa_flags);
  }
  return all;
}

/// Of the control and status register: what a program sets, and not what results have raised.
unsigned modes_of_vectors() { return _mm_getcsr() & ~0x3fU; }

}  // namespace

TEST_CASE("host: floating-point modes, signals, their mask and the locale stay what they were") {
  const int rounding = std::fegetround();
  const unsigned vectors = _mm_getcsr();
  const auto before = std::signal(SIGUSR2, [](int) {});
  std::fesetround(FE_TOWARDZERO);
  _mm_setcsr(_mm_getcsr() | 0x8040U);  // results and operands that are denormal are zero
  const unsigned modes = modes_of_vectors();
  const auto actions = signal_actions();
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  sigset_t mask, mask_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);

  LinearLearner learner(
      linear_network(),
      {.optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
       .data =
           [](std::size_t d) { return std::make_unique<ListStream>(std::vector{random_batch(4, d, test_device(d))}); },
       .losses = linear_losses},
      {.devices = test_devices(2)});
  learner.train({.steps = 5});

  CHECK(std::fegetround() == FE_TOWARDZERO);
  CHECK(modes_of_vectors() == modes);
  CHECK(signal_actions() == actions);
  CHECK(locale == std::setlocale(LC_ALL, nullptr));
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (int signal = 1; signal < NSIG; ++signal) CHECK(sigismember(&mask, signal) == sigismember(&mask_after, signal));
  _mm_setcsr(vectors);
  std::fesetround(rounding);
  std::signal(SIGUSR2, before);
}

TEST_CASE("host: static tensors, groups and learners of several sources are destroyed in any order") {
  for (const char* streams : kStreams) {
    CAPTURE(streams);
    const Outcome outcome = run_host("statics", streams);
    CHECK(outcome.code == 0);
    CHECK(outcome.output == "main returns\n");
  }
}

TEST_CASE("host: a program may end in a hook on one of the library's threads") {
  for (const char* streams : kStreams) {
    CAPTURE(streams);
    const Outcome outcome = run_host("exit_in_hook", streams);
    CHECK(outcome.code == 7);
    CHECK(outcome.output == "");
  }
}

TEST_CASE("host: main may return while other threads train") {
  for (const char* streams : kStreams) {
    CAPTURE(streams);
    const Outcome outcome = run_host("training", streams);
    CHECK(outcome.code == 0);
    CHECK(outcome.output == "");
  }
}

TEST_CASE("host: in a child of a program that has trained, what needs threads says so, and the child ends" *
          doctest::skip(kIsThreadSanitized)) {
  const std::string inline_streams = run_host("forked", "TUTTI_CPU_ASYNC=0").output;
  CHECK_MESSAGE(contains(inline_streams, "the parent's learner: [sync.step] the group of cpu:0 was made in process "),
                inline_streams);
  CHECK_MESSAGE((kIsSanitized || contains(inline_streams, "a learner of the child's: nothing was wrong")),
                inline_streams);
  const std::string asynchronous = run_host("forked", "TUTTI_CPU_ASYNC=1").output;
  CHECK_MESSAGE((kIsSanitized || contains(asynchronous, "a learner of the child's: [stream] asynchronous cpu:")),
                asynchronous);
  for (const std::string& output : {inline_streams, asynchronous}) {
    CHECK_MESSAGE(contains(output, "the child ended with 0"), output);
    CHECK_MESSAGE(contains(output, "the parent trained on"), output);
  }
}

TEST_SUITE_END();
