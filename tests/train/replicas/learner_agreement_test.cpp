// SPDX-License-Identifier: Apache-2.0
// What learners of several processes agree on beside the steps: what hooks hear of an evaluation, how data are divided,
// late stops and errors.
#include <tutti/tests/train/replicas/processes_run.h>

#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/hooks/periodic_writer.h>

#include <doctest/doctest.h>

#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Learner = ProcessesRun::Learner;

void check_good(const ProcessesRun& run) {
  for (const std::string& error : run.errors) CHECK(error == "");
}

void be_silent(Learner& learner) {
  for (std::size_t d = 0; d < learner.devices(); ++d) learner.trainer(d).set_log([](std::string_view) {});
}

/// Errors of a run in which each device reads what `data` gives it by its number.
std::vector<std::string> errors_reading(
    const std::vector<std::uint32_t>& split,
    std::function<std::unique_ptr<DataStream<Batch>>(std::size_t number, Device)> data) {
  ProcessesRun run(split);
  run.own_data = std::move(data);
  run.run([&](std::size_t, Learner& learner) {
    be_silent(learner);
    learner.train({.steps = 2});
  });
  return run.errors;
}

BatchOptions batches_on(Device device, const WorldShare& world, std::uint64_t seed) {
  return {.batch = 3, .devices = {device}, .world = world, .seed = seed};
}

}  // namespace

TEST_CASE("learner, processes: what a hook makes of an evaluation on the main device is made in every process") {
  const auto trained = [](const std::vector<std::uint32_t>& split) {
    ProcessesRun run(split);
    run.options.evaluation = LearnerOptions::Evaluation::main;
    std::vector<int> heard(split.size());
    run.run([&](std::size_t rank, Learner& learner) {
      double best = 1e9;
      learner.main().register_hook(
          std::make_shared<CallbackHook>(Callbacks{.after_evaluation = [&](Trainer& trainer, const Metrics& means) {
            ++heard[rank];
            CHECK(trainer.evaluating());
            const double loss = means.at("loss");
            for (std::size_t d = 0; d < learner.devices(); ++d)  // halved, unless it was a tenth better
              learner.optimizer(d).set_learning_rate(learner.optimizer(d).learning_rate() *
                                                     (loss < 0.9 * best ? 1 : 0.5));
            best = std::min(best, loss);
          }}));
      learner.train_and_evaluate({.epochs = 3}, {.every_steps = 2});
      CHECK(learner.main().storage().latest("evaluation/loss").has_value());
      CHECK(learner.evaluate().at("loss") == learner.main().storage().latest("evaluation/loss")->value);
    });
    check_good(run);
    for (const int count : heard) CHECK(count == 7);
    for (auto& end : run.ends) end.values.clear();  // other devices than the main ones have none
    return run.ends;
  };
  const auto whole = trained({4});
  for (const auto& end : whole) CHECK(end.weights == whole[0].weights);
  for (const auto& split : kProcessSplits) CHECK(trained(split) == whole);
}

TEST_CASE("learner, processes: data that were told no world, and that all devices would read, are refused") {
  for (const auto& split : kProcessSplits) {
    const auto errors = errors_reading(split, [](std::size_t, Device device) {
      return BatchStream(regression_examples(37, 1), batches_on(device, {}, 5)).stream();
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("would read the same training data") != std::string::npos);
      CHECK(error.find("sync.world()") != std::string::npos);
    }
  }
}

TEST_CASE("learner, processes: alike data are a device's own if that is said, and unlike ones by themselves") {
  for (const bool alike : {true, false}) {
    const auto errors = errors_reading({1, 3}, [=](std::size_t number, Device device) {
      const WorldShare world{.devices = alike ? 1U : 0U};
      return BatchStream(regression_examples(37, number), batches_on(device, world, alike ? 5 : number)).stream();
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("learner, processes: shares of divisions that differ are an error on all, with two devices and both values") {
  const auto check = [](const std::vector<std::string>& errors, const std::string& one, const std::string& other) {
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("rank 0 cpu:0 and rank 1 cpu:1 are not of one division") != std::string::npos);
      CHECK(error.find(one) != std::string::npos);
      CHECK(error.find(other) != std::string::npos);
    }
  };
  const auto share = [](std::size_t number) { return WorldShare{.processes = 2, .devices = 4, .first = number}; };
  check(errors_reading(
            {1, 3},
            [&](std::size_t number, Device device) {
              return BatchStream(regression_examples(37, 1), batches_on(device, share(number), 5 + number)).stream();
            }),
        "seed 5", "seed 6");
  check(errors_reading({1, 3},
                       [&](std::size_t number, Device device) {
                         BatchOptions options = batches_on(device, share(number), 5);
                         options.batch = number == 0 ? 3 : 2;
                         return BatchStream(regression_examples(37, 1), options).stream();
                       }),
        "batches of 3", "batches of 2");
  check(errors_reading({1, 3},
                       [&](std::size_t number, Device device) {
                         auto stream =
                             BatchStream(regression_examples(37, 1), batches_on(device, share(number), 5)).stream();
                         if (number == 0) stream->next();
                         return stream;
                       }),
        "\"examples\":12", "\"examples\":0");
}

TEST_CASE("learner, processes: evaluation data that all would read are refused, too") {
  ProcessesRun run({2, 2});
  run.own_evaluation_data = [](std::size_t, Device device) {
    return BatchStream(regression_examples(13, 2), {.batch = 2, .devices = {device}, .shuffle = false}).stream();
  };
  run.run([&](std::size_t, Learner& learner) {
    be_silent(learner);
    learner.evaluate();
  });
  for (const std::string& error : run.errors) {
    CAPTURE(error);
    CHECK(error.find("would read the same evaluation data") != std::string::npos);
  }
}

TEST_CASE("learner, processes: an error of the last write is an error of all, and names the process") {
  struct Failing : EventWriter {
    void write(const EventStorage&) override { throw std::runtime_error("the disk is full"); }
  };
  const auto errors_with = [](const std::function<void(Learner&)>& register_hooks) {
    ProcessesRun run({2, 2});
    run.run([&](std::size_t, Learner& learner) {
      be_silent(learner);
      register_hooks(learner);
      learner.train({.steps = 3});
    });
    return run.errors;
  };
  const auto check = [](const std::vector<std::string>& errors) {
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("the disk is full") != std::string::npos);
    }
    CHECK(errors[1].find("rank 0 cpu:0 failed") != std::string::npos);
  };
  check(errors_with([](Learner& learner) {  // after_train alone: no step is a hundredth
    learner.main().register_hook(std::make_shared<PeriodicWriter>(std::make_unique<Failing>(), 100));
  }));
  check(errors_with([](Learner& learner) {
    if (learner.writes())
      learner.main().register_hook(std::make_shared<CallbackHook>(
          Callbacks{.end = [](Trainer&) { throw std::runtime_error("the disk is full"); }}));
  }));
}

TEST_CASE("learner, processes: a stop that came too late in one process is told in all, and ended none") {
  for (const std::size_t asking : {0U, 1U}) {
    ProcessesRun run({2, 2});
    run.run([&](std::size_t rank, Learner& learner) {
      if (rank == asking)
        learner.main().register_hook(std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer& t, auto&) {
          if (t.iteration() == 6) t.stop("enough");
        }}));
      learner.train({.steps = 6});
      for (std::size_t d = 0; d < learner.devices(); ++d) CHECK(learner.trainer(d).late_stop() == "enough");
      learner.train({.steps = 8});  // it was for the call before
      CHECK(learner.main().late_stop() == "");
    });
    check_good(run);
    for (const auto& end : run.ends) CHECK(end.iteration == 8);
  }
}

TEST_CASE("learner, processes: what was gathered before the state changed at the same step is not saved") {
  const TemporaryFolder folder;
  ProcessesRun run({1, 3});
  run.run([&](std::size_t, Learner& learner) {
    CheckpointParts parts;
    learner.add_parts(parts);
    learner.train({.steps = 2});
    learner.gather_parts();
    for (std::size_t d = 0; d < learner.devices(); ++d) learner.data(d).start_epoch(0);
    if (learner.writes()) CHECK_THROWS_WITH_AS(parts.save(), doctest::Contains("has changed since"), Error);
    learner.gather_parts();
    if (learner.writes()) CHECK_NOTHROW(parts.save());
  });
  check_good(run);
}

TEST_CASE("learner, processes: one whose data are out before the first step passes batches without examples") {
  ProcessesRun run({1, 3});
  run.options.step.pass_empty_batches = true;
  run.own_data = [](std::size_t number, Device device) {
    const BatchStream batches(regression_examples(number == 0 ? 2 : 6, number), {.batch = 2, .devices = {device}});
    auto stream = batches.stream();
    if (number == 0) stream->next();  // its only one
    return stream;
  };
  run.run([&](std::size_t, Learner& learner) { learner.train({.epochs = 2}); });
  check_good(run);
  for (const auto& end : run.ends) CHECK(end.iteration == 6);
}

TEST_SUITE_END();
