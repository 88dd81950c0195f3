// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/sgd.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/stop_on_interrupt.h>

#include <doctest/doctest.h>

#include <csignal>

using namespace tutti;

namespace {

volatile std::sig_atomic_t heard = 0;

void hear(int) { heard = 1; }

/// What a signal does, for as long as this lives.
class Disposition {
 public:
  explicit Disposition(void (*handler)(int), int signal = SIGINT)
      : signal_(signal), before_(std::signal(signal, handler)) {
    heard = 0;
  }
  ~Disposition() { std::signal(signal_, before_); }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;

 private:
  int signal_;
  void (*before_)(int);
};

/// Trains for a hundred steps on so many devices, and sends itself the signal after one of them.
struct Run {
  Run(std::size_t devices, std::int64_t signal_after, int signal = SIGINT)
      : learner(linear_network(),
                {.optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
                 .data =
                     [](std::size_t d) {
                       return std::make_unique<ListStream>(std::vector{random_batch(4, d, test_device(d))});
                     },
                 .losses = linear_losses},
                {.devices = test_devices(devices)}) {
    learner.main().register_hooks(
        {interrupt, std::make_shared<CallbackHook>(Callbacks{.after_step = [=](Trainer&, const StepReport& report) {
           if (report.global_step == signal_after) std::raise(signal);
         }})});
    learner.train({.steps = 100});
  }
  std::int64_t steps() { return learner.main().iteration(); }

  std::shared_ptr<StopOnInterrupt> interrupt = std::make_shared<StopOnInterrupt>();
  LinearLearner learner;
};

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("StopOnInterrupt: training ends on all devices before one step, and the signal is what it was") {
  const Disposition own(&hear);
  for (const std::size_t devices : {1U, 2U}) {
    CAPTURE(devices);
    Run run(devices, 3);
    CHECK(run.interrupt->interrupted());
    CHECK(run.steps() >= 4);
    CHECK(run.steps() <= 6);
    for (std::size_t d = 0; d < devices; ++d) {
      CHECK(run.learner.trainer(d).completed());
      CHECK(run.learner.trainer(d).stop_reason() == "interrupted by Ctrl-C");
      CHECK(run.learner.trainer(d).iteration() == run.steps());
    }
    CHECK(heard == 0);
    run.learner.train({.steps = 100});  // goes on
    CHECK(run.steps() == 100);
    CHECK_FALSE(run.interrupt->interrupted());
  }
  std::raise(SIGINT);
  CHECK(heard == 1);
}

TEST_CASE("StopOnInterrupt: SIGTERM asks for an end, too, and each signal is what it was") {
  const Disposition own(&hear, SIGTERM);
  const Disposition ignored(SIG_IGN);
  Run run(2, 3, SIGTERM);
  CHECK(run.interrupt->interrupted());
  CHECK(run.steps() <= 6);
  CHECK(run.learner.main().stop_reason() == "asked to end by SIGTERM");
  CHECK(heard == 0);
  std::raise(SIGINT);
  CHECK(heard == 0);
  std::raise(SIGTERM);
  CHECK(heard == 1);
}

TEST_CASE("StopOnInterrupt: a signal behind the last step is told too") {
  const Disposition own(&hear);
  Run run(1, 100);
  CHECK(run.interrupt->interrupted());
  CHECK(run.steps() == 100);
}

TEST_CASE("StopOnInterrupt: a stop that is not its own is no Ctrl-C, whatever its reason says") {
  const Disposition own(&hear);
  Run run(2, 0);
  CHECK_FALSE(run.interrupt->interrupted());
  run.learner.main().register_hook(
      std::make_shared<CallbackHook>(Callbacks{.before_train = [](Trainer& trainer) { trainer.stop("interrupted"); }}));
  run.learner.train({.steps = 200});
  CHECK(run.steps() == 100);
  CHECK(run.learner.main().stop_reason() == "interrupted");
  CHECK_FALSE(run.interrupt->interrupted());
}

TEST_CASE("StopOnInterrupt: a process that ignores the signal goes on doing so") {
  const Disposition own(SIG_IGN);
  Run run(1, 3);
  CHECK_FALSE(run.interrupt->interrupted());
  CHECK(run.steps() == 100);
}

TEST_SUITE_END();
