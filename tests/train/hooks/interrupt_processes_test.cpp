// SPDX-License-Identifier: Apache-2.0
// A signal to one of several processes, which are this program once more, in the first test case.
#include <tutti/distributed/process_group.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/command/running_program.h>
#include <tutti/tests/distributed/processes/control/job.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/stop_on_interrupt.h>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kProcess = "StopOnInterrupt process: signals itself";
constexpr const char* kSignalAfter = "TUTTI_TEST_SIGNAL_AFTER";  // the step after which a process signals itself
constexpr const char* kStopAfter = "TUTTI_TEST_STOP_AFTER";  // that after which it asks for a stop by its own reason
constexpr int kSteps = 20;

int step_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

/// What two processes print of which one has `variable`, once they have ended.
std::vector<std::string> outputs(int chosen, const char* variable, int step) {
  const int port = free_port();
  std::vector<std::unique_ptr<RunningProgram>> processes;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> words{"env", "TUTTI_RANK=" + std::to_string(rank), "TUTTI_WORLD_SIZE=2",
                                   "TUTTI_RENDEZVOUS=127.0.0.1:" + std::to_string(port),
                                   "TUTTI_SECRET=a secret of this test"};
    if (rank == chosen) words.push_back(std::string(variable) + "=" + std::to_string(step));
    words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
    words.insert(words.end(), {"--no-skip", std::string("--test-case=") + kProcess});
    processes.push_back(std::make_unique<RunningProgram>(words));
  }
  std::vector<std::string> all;
  for (const auto& process : processes) {
    CHECK(process->end() == 0);
    all.push_back(process->output);
  }
  return all;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return "no " + begin + " in " + text;
  const std::size_t first = at + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("StopOnInterrupt process: signals itself" * doctest::skip()) {
  if (std::getenv("TUTTI_RANK") == nullptr) return;
  ProcessGroup processes = ProcessGroup::from_environment({.rendezvous = std::chrono::seconds(60)});
  GradientSync sync(processes, {cpu()});
  LinearLearner learner(
      sync, linear_network(),
      {.optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
       .data = [](std::size_t) { return std::make_unique<ListStream>(std::vector{random_batch(4, 1, cpu())}); },
       .losses = linear_losses},
      {});
  const auto interrupt = std::make_shared<StopOnInterrupt>();
  learner.main().register_hooks(
      {interrupt, std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer& trainer, const StepReport&) {
         if (trainer.iteration() == step_of(kSignalAfter)) std::raise(trainer.iteration() == kSteps ? SIGTERM : SIGINT);
         if (trainer.iteration() == step_of(kStopAfter)) trainer.stop("interrupted");
       }})});
  learner.train({.steps = kSteps});
  std::printf("interrupted: %d, steps: %d, late: %s;\n", interrupt->interrupted() ? 1 : 0,
              static_cast<int>(learner.main().iteration()), learner.main().late_stop().value_or("none").c_str());
}

TEST_CASE("StopOnInterrupt: a signal to any one process, in the last step too, is told in all, which end alike") {
  for (const int chosen : {0, 1})
    for (const int step : {5, kSteps - 1, kSteps}) {
      CAPTURE(chosen);
      CAPTURE(step);
      const auto texts = outputs(chosen, kSignalAfter, step);
      for (const std::string& text : texts) {
        CAPTURE(text);
        CHECK(between(text, "interrupted: ", ",") == "1");
        CHECK(between(text, "steps: ", ",") == between(texts[0], "steps: ", ","));
      }
      if (step == 5) CHECK(std::stoi(between(texts[0], "steps: ", ",")) < kSteps);
    }
}

TEST_CASE("StopOnInterrupt: a stop for another reason in the last step of one process is told in all, as no Ctrl-C") {
  for (const std::string& text : outputs(1, kStopAfter, kSteps)) {
    CAPTURE(text);
    CHECK(between(text, "interrupted: ", ",") == "0");
    CHECK(between(text, "late: ", ";") == "interrupted");
  }
}

TEST_SUITE_END();
