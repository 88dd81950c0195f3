// SPDX-License-Identifier: Apache-2.0
// What processes set differently for one run is told before its first step, and where it is not compared, by what they
// did.
#include <tutti/tests/train/replicas/processes_run.h>

#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/learning_rate.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Learner = ProcessesRun::Learner;

void be_quiet(Learner& learner) {
  for (std::size_t d = 0; d < learner.devices(); ++d) learner.trainer(d).set_log([](std::string_view) {});
}

/// Each process trains as `work` says; all get an error with this text, and none has made a step.
void check_refused(
    const char* text, const std::function<void(std::size_t rank, Learner&)>& work, std::int64_t steps = 0,
    std::function<void(std::size_t, LearnerOptions&)> set_options = [](std::size_t, LearnerOptions&) {}) {
  ProcessesRun run({2, 2});
  run.set_own_options = std::move(set_options);
  std::vector<std::int64_t> iterations(2);
  run.run([&](std::size_t rank, Learner& learner) {
    be_quiet(learner);
    try {
      work(rank, learner);
    } catch (...) {
      iterations[rank] = learner.main().iteration();
      throw;
    }
  });
  for (const std::string& error : run.errors) {
    CAPTURE(error);
    CHECK(error.find(text) != std::string::npos);
  }
  for (const std::int64_t iteration : iterations) CHECK(iteration <= steps);
}

}  // namespace

TEST_CASE("run settings: other limits, plans and learning rates of a process are named before the first step") {
  check_refused("TrainingLimits::epochs is 2 on rank 0 cpu:0 and 3 on rank 1 cpu:2: all processes need the same",
                [](std::size_t rank, Learner& learner) { learner.train({.epochs = rank == 0 ? 2 : 3}); });
  check_refused("TrainingLimits::steps is unlimited on rank 0 cpu:0 and 5 on rank 1 cpu:2",
                [](std::size_t rank, Learner& learner) {
                  rank == 0 ? learner.train({.epochs = 2}) : learner.train({.steps = 5, .epochs = 2});
                });
  check_refused("EvaluationPlan::every_steps is 2 on rank 0 cpu:0 and 3 on rank 1 cpu:2",
                [](std::size_t rank, Learner& learner) {
                  learner.train_and_evaluate({.epochs = 2}, {.every_steps = rank == 0 ? 2 : 3});
                });
  check_refused("the learning rate is 0.05 on rank 0 cpu:0 and 0.1 on rank 1 cpu:3",
                [](std::size_t rank, Learner& learner) {
                  if (rank == 1) learner.optimizer(1).set_learning_rate(0.1);
                  learner.train({.epochs = 2});
                });
}

TEST_CASE("run settings: other scaling, types of forward and steps of a process") {
  const auto refused = [](const char* text, std::function<void(LearnerOptions&)> set) {
    check_refused(
        text, [](std::size_t, Learner& learner) { learner.train({.epochs = 2}); }, 0,
        [&](std::size_t rank, LearnerOptions& options) {
          if (rank == 1) set(options);
        });
  };
  refused("the gradient scaler's scale is none on rank 0 cpu:0 and 256 on rank 1 cpu:2",
          [](LearnerOptions& options) { options.scaling = GradientScalerOptions{.initial_scale = 256.0}; });
  refused("EagerOptions::autocast is f32 on rank 0 cpu:0 and bf16 on rank 1 cpu:2",
          [](LearnerOptions& options) { options.step.autocast = DType::bf16; });
  refused("EagerOptions::pass_empty_batches is false on rank 0 cpu:0 and true on rank 1 cpu:2",
          [](LearnerOptions& options) { options.step.pass_empty_batches = true; });
}

TEST_CASE("run settings: other options of a process's optimizer") {
  ProcessesRun run({2, 2});
  run.optimizer = [](std::size_t rank) { return SgdOptions{.momentum = rank == 0 ? 0.9 : 0.8, .nesterov = true}; };
  run.run([](std::size_t, Learner& learner) {
    be_quiet(learner);
    learner.train({.epochs = 2});
  });
  for (const std::string& error : run.errors)
    CHECK(error.find("the optimizer is Sgd (momentum 0.9, dampening 0, weight_decay 0, nesterov true) on rank 0 cpu:0 "
                     "and Sgd (momentum 0.8, dampening 0, weight_decay 0, nesterov true) on rank 1 cpu:2") !=
          std::string::npos);
}

TEST_CASE("run settings: checkpoints at other times, and a folder of one process alone") {
  const TemporaryFolder folder;
  for (const bool both : {true, false})
    check_refused(both ? "CheckpointFolderOptions::every_steps is 2 on rank 0 cpu:0 and 4 on rank 1 cpu:2"
                       : "a folder for checkpoints, on all or on none?",
                  [&](std::size_t rank, Learner& learner) {
                    CheckpointParts parts;
                    CheckpointFolder checkpoints(folder.file("run"), {.every_steps = rank == 0 ? 2 : 4});
                    learner.add_parts(parts);
                    if (rank == 0 || both) learner.save_into(checkpoints, parts);
                    learner.train({.epochs = 2});
                  });
}

TEST_CASE("run settings: what one process does beside the others is told by what each was about to do") {
  check_refused(
      "for step 3 on rank 0 cpu:0 and barrier for a look at the weights on rank 1 cpu:2",
      [](std::size_t rank, Learner& learner) {
        if (rank == 1)
          for (std::size_t d = 0; d < 2; ++d)
            learner.trainer(d).register_hook(
                std::make_shared<CallbackHook>(Callbacks{.after_step = [&learner, d](Trainer& trainer, auto&) {
                  if (trainer.iteration() == 3)
                    learner.sync().barrier(learner.sync().devices()[d], "a look at the weights");
                }}));
        learner.train({.epochs = 2});
      },
      4);
}

TEST_CASE("run settings: learning rates that part on the way end the run before it goes far") {
  for (const bool processes : {false, true}) {
    ProcessesRun run(processes ? std::vector<std::uint32_t>{2, 2} : std::vector<std::uint32_t>{4});
    std::vector<std::int64_t> iterations(processes ? 2 : 1);
    run.run([&](std::size_t rank, Learner& learner) {
      be_quiet(learner);
      if (rank == 0)  // and on no other device
        learner.main().register_hook(
            std::make_shared<LearningRateSchedule>(learner.optimizer(0), Schedule::step(0.05, 2, 0.5)));
      try {
        learner.train({.epochs = 2});
      } catch (...) {
        iterations[rank] = learner.main().iteration();
        throw;
      }
    });
    for (const std::string& error : run.errors) {
      CAPTURE(error);
      CHECK(error.find(processes ? "the learning rate is 0.025 on rank 0 cpu:0 and 0.05 on rank 0 cpu:1: replicas drift"
                                 : "the learning rate is 0.025 on cpu:0 and 0.05 on cpu:1: replicas drift") !=
            std::string::npos);
    }
    for (const std::int64_t iteration : iterations) CHECK(iteration == 3);
  }
}

TEST_SUITE_END();
