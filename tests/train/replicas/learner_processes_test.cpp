// SPDX-License-Identifier: Apache-2.0
// Learners of several processes, which here are threads of one: they share nothing but what the group's engine and link
// carry.
#include <tutti/tests/train/replicas/processes_run.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/distributed_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/early_stopping.h>
#include <tutti/train/hooks/periodic_writer.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Learner = ProcessesRun::Learner;

void check_good(const ProcessesRun& run) {
  for (const std::string& error : run.errors) CHECK(error == "");
}

void train(ProcessesRun& run, const TrainingLimits& limits, const EvaluationPlan& plan = {}) {
  run.run([&](std::size_t, Learner& learner) { learner.train_and_evaluate(limits, plan); });
  check_good(run);
}

/// All checkpoints are made by options of the folder alone.
struct Checkpointed {
  Checkpointed(Learner& learner, const std::string& path, CheckpointFolderOptions options)
      : folder(path, std::move(options)) {
    learner.add_parts(parts);
    learner.save_into(folder, parts);
  }
  CheckpointParts parts;
  CheckpointFolder folder;
};

}  // namespace

TEST_CASE("learner, processes: one, two and four processes train to the same bits, with the same metrics everywhere") {
  const EvaluationPlan plan{.every_epochs = 1};
  ProcessesRun whole({4});
  train(whole, {.epochs = 3}, plan);
  CHECK(whole.ends[0].iteration == 12);
  REQUIRE(whole.ends[0].values.size() == 2);
  for (const auto& end : whole.ends) CHECK(end == whole.ends[0]);
  for (const auto& split : kProcessSplits) {
    ProcessesRun parts(split);
    train(parts, {.epochs = 3}, plan);
    CHECK(parts.ends == whole.ends);
  }
}

TEST_CASE("learner, processes: gradients that are used a step late give the same bits in any split, too") {
  const auto late = [](const std::vector<std::uint32_t>& split) {
    ProcessesRun run(split);
    run.sync_options.overlap = Overlap::double_buffered;
    train(run, {.epochs = 2}, {.every_epochs = 1});
    return run.ends;
  };
  const auto expected = late({4});
  for (const auto& split : kProcessSplits) CHECK(late(split) == expected);
}

TEST_CASE("learner, processes: an evaluation on the main device alone gives its means to every process") {
  std::vector<double> losses;
  for (const auto& split : std::vector<std::vector<std::uint32_t>>{{4}, {2, 2}, {1, 3}}) {
    ProcessesRun run(split);
    run.options.evaluation = LearnerOptions::Evaluation::main;
    std::vector<double> of_rank(split.size());
    run.run([&](std::size_t rank, Learner& learner) {
      learner.train_and_evaluate({.epochs = 2}, {.every_epochs = 1});
      of_rank[rank] = learner.evaluate().at("loss");
    });
    check_good(run);
    losses.insert(losses.end(), of_rank.begin(), of_rank.end());
  }
  for (const double loss : losses) CHECK(loss == losses.front());
}

TEST_CASE("learner, processes: a checkpoint goes on in any other split, to the bits of the uninterrupted run") {
  ProcessesRun whole({4});
  train(whole, {.steps = 11});
  for (const auto& [before, after] : std::vector<std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>>{
           {{2, 2}, {4}}, {{4}, {1, 1, 1, 1}}, {{1, 3}, {2, 2}}}) {
    const TemporaryFolder folder;
    const auto part = [&](const std::vector<std::uint32_t>& split, std::int64_t steps) {
      ProcessesRun run(split);
      run.run([&](std::size_t, Learner& learner) {
        Checkpointed checkpoints(learner, folder.file("run"), {});
        const auto loaded = learner.load_newest(checkpoints.folder, checkpoints.parts);
        CHECK(loaded.has_value() == (steps == 11));
        learner.train({.steps = steps});
      });
      check_good(run);
      return run.ends;
    };
    part(before, 5);  // within an epoch, and between two lines of metrics
    CHECK(part(after, 11) == whole.ends);
  }
}

namespace {

/// Goes on from the newest checkpoint in the folder, if there is one, until that many steps are made.
std::vector<ProcessesRun::End> ends_of_part(ProcessesRun& run, std::int64_t steps, const std::string& path) {
  run.run([&](std::size_t, Learner& learner) {
    Checkpointed checkpoints(learner, path, {});
    learner.load_newest(checkpoints.folder, checkpoints.parts);
    learner.train({.steps = steps});
  });
  check_good(run);
  return run.ends;
}

}  // namespace

TEST_CASE("learner, processes: a checkpoint has what a compression keeps in all processes") {
  const auto part = [](const std::vector<std::uint32_t>& split, std::int64_t steps, const std::string& path) {
    ProcessesRun run(split);
    run.compression = [] { return std::make_shared<PowerSgd>(PowerSgdOptions{.minimum_rate = 0}); };
    return ends_of_part(run, steps, path);
  };
  const TemporaryFolder folder;
  const auto whole = part({4}, 11, folder.file("whole"));
  ProcessesRun plain({4});
  train(plain, {.steps = 11});
  CHECK(whole[0].weights != plain.ends[0].weights);
  for (const auto& [before, after] : std::vector<std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>>{
           {{2, 2}, {4}}, {{4}, {1, 1, 1, 1}}, {{1, 3}, {2, 2}}}) {
    const std::string path = folder.file(fmt::format("{}-{}", before.size(), after.size()));
    part(before, 5, path);
    CHECK(part(after, 11, path) == whole);
  }
}

TEST_CASE("learner, processes: what a compression keeps is gathered before one process saves it by hand") {
  ProcessesRun run({2, 2});
  run.compression = [] { return std::make_shared<PowerSgd>(PowerSgdOptions{.minimum_rate = 0}); };
  run.run([](std::size_t rank, Learner& learner) {
    CheckpointParts parts;
    learner.add_parts(parts);
    learner.train({.steps = 3});
    const CheckpointFilter only{.include = {"compression"}};
    if (rank == 0) CHECK_THROWS_WITH(parts.save(only), doctest::Contains("gather_parts"));
    learner.gather_parts();
    if (rank > 0) return;
    const PartStates saved = parts.save(only);
    std::size_t kept = 0;
    for (const auto& [part, state] : saved)
      for (const auto& [name, array] : state.arrays) kept += name.find("hidden.weight:kept:") != std::string::npos;
    CHECK(kept == 4);
  });
  check_good(run);
}

TEST_CASE("learner, processes: devices with data of their own end each epoch together, and go on in another split") {
  // Device d has d + 2 batches an epoch: two to five steps, and most devices pass some without examples.
  const auto own_data = [](std::size_t number, Device device) -> std::unique_ptr<DataStream<Batch>> {
    return BatchStream(regression_examples(2 * static_cast<std::int64_t>(number) + 4, 10 + number),
                       {.batch = 2, .devices = {device}, .seed = number})
        .stream();
  };
  const auto part = [&](const std::vector<std::uint32_t>& split, std::int64_t steps, const std::string& path) {
    ProcessesRun run(split);
    run.own_data = own_data;
    return ends_of_part(run, steps, path);
  };
  const TemporaryFolder folder;
  const auto whole = part({4}, 13, folder.file("whole"));  // in the third epoch
  for (const auto& split : kProcessSplits) {
    const std::string path = folder.file(fmt::format("{}-{}", split.size(), split.front()));
    part(split, 8, path);
    CHECK(part({2, 2}, 13, path) == whole);
  }
}

TEST_CASE("learner, processes: a stop asked for in any process ends all before the same step, with a checkpoint") {
  for (const std::size_t asking : {0U, 1U}) {
    const TemporaryFolder folder;
    ProcessesRun run({2, 2});
    run.run([&](std::size_t rank, Learner& learner) {
      const Checkpointed checkpoints(learner, folder.file("run"), {});
      if (rank == asking)
        learner.main().register_hook(std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer& t, auto&) {
          if (t.iteration() == 5) learner.stop("enough");
        }}));
      learner.train({.epochs = 100});
    });
    check_good(run);
    for (const auto& end : run.ends) {
      CHECK(end.stop_reason == "enough");
      CHECK(end.iteration == run.ends[0].iteration);
    }
    CHECK(run.ends[0].iteration <= 7);
    CHECK(std::filesystem::exists(folder.file("run") +
                                  fmt::format("/checkpoint-00000001-step-{}", run.ends[0].iteration)));
  }
}

TEST_CASE("learner, processes: early stopping ends all processes at the step of one process") {
  const auto stopped = [](const std::vector<std::uint32_t>& split) {
    ProcessesRun run(split);
    run.options.evaluation = LearnerOptions::Evaluation::main;
    run.run([&](std::size_t, Learner& learner) {
      if (learner.writes())
        learner.main().register_hook(std::make_shared<EarlyStopping>(
            EarlyStoppingOptions{.smaller_is_better = false, .patience = 2, .min_delta = 1e9}));
      learner.train_and_evaluate({.epochs = 50}, {.every_steps = 3});
    });
    check_good(run);
    return run.ends;
  };
  const auto whole = stopped({4});
  CHECK(whole[0].iteration == 9);
  for (const auto& split : kProcessSplits) {
    const auto ends = stopped(split);
    for (std::size_t d = 0; d < ends.size(); ++d) {
      CHECK(ends[d].iteration == 9);
      CHECK(ends[d].stop_reason == whole[0].stop_reason);
      CHECK(ends[d].weights == whole[d].weights);
    }
  }
}

TEST_CASE("learner, processes: the first one writes, and its error reaches all") {
  struct Counting : EventWriter {
    explicit Counting(std::atomic<int>& lines) : lines_(lines) {}
    void write(const EventStorage&) override { ++lines_; }
    std::atomic<int>& lines_;
  };
  std::array<std::atomic<int>, 2> lines{};
  ProcessesRun run({2, 2});
  run.run([&](std::size_t rank, Learner& learner) {
    CHECK(learner.writes() == (rank == 0));
    learner.main().register_hook(std::make_shared<PeriodicWriter>(std::make_unique<Counting>(lines[rank]), 1));
    learner.train({.steps = 3});
  });
  check_good(run);
  CHECK(lines[0] > 0);
  CHECK(lines[1] == 0);

  ProcessesRun failing({2, 2});
  failing.run([&](std::size_t, Learner& learner) {
    learner.main().set_log([](std::string_view) {});
    for (std::size_t d = 0; d < learner.devices(); ++d) learner.trainer(d).set_log([](std::string_view) {});
    const Checkpointed checkpoints(learner, "/proc/no_folder", {.every_steps = 2});
    learner.train({.steps = 10});
  });
  CHECK(failing.errors[0].find("/proc/no_folder") != std::string::npos);
  CHECK(failing.errors[1].find("/proc/no_folder") != std::string::npos);
  CHECK(failing.errors[1].find("rank 0") != std::string::npos);
}

TEST_CASE("learner, processes: driving gives one curve to all, the best model to every device, and checkpoints whole") {
  const auto driven = [](const std::vector<std::uint32_t>& split) {
    const TemporaryFolder folder;
    ProcessesRun run(split);
    std::vector<std::string> curves(split.size());
    run.run([&](std::size_t rank, Learner& learner) {
      CheckpointFolder checkpoints(folder.file("run"));
      DrivingState state;
      CheckpointParts parts;
      learner.add_parts(parts);
      parts.add("driving", state);
      DrivingOptions options{.epochs = {.max_epochs = 4, .validation_frequency = 1}};
      options.epochs.eligible = [](std::int64_t epoch) { return epoch < 2; };
      options.checkpoint = [&](const DrivingState& now) {
        state = now;
        checkpoints.save(parts, {.step = learner.main().iteration(), .epoch = now.loop.epoch});
      };
      const auto schedule = EpochSchedule::reduce_on_plateau(0.5, 1);
      curves[rank] = local_data_parallel_training_loop(learner, *schedule, options).to_text();
      checkpoints.wait();
    });
    check_good(run);
    CHECK(CheckpointFolder(folder.file("run")).paths().size() == 4);
    for (const std::string& curve : curves) CHECK(curve == curves[0]);
    return std::pair(curves[0], run.ends);
  };
  const auto whole = driven({4});
  for (const auto& end : whole.second) CHECK(end.weights == whole.second[0].weights);
  for (const auto& split : kProcessSplits) CHECK(driven(split) == whole);
}

TEST_CASE("learner, processes: an error of any rank while it is driven ends all, and the driver's is told") {
  for (const std::size_t failing : {0U, 1U}) {
    ProcessesRun run({2, 2});
    run.run([&](std::size_t rank, Learner& learner) {
      for (std::size_t d = 0; d < learner.devices(); ++d) learner.trainer(d).set_log([](std::string_view) {});
      if (rank == failing)
        learner.main().register_hook(std::make_shared<CallbackHook>(Callbacks{.after_epoch = [](Trainer& t) {
          t.epoch() == 1 ? throw std::runtime_error("the disk is full") : void();
        }}));
      const auto schedule = EpochSchedule::constant();
      local_data_parallel_training_loop(learner, *schedule, {.epochs = {.max_epochs = 4, .validation_frequency = 1}});
    });
    for (const std::string& error : run.errors) {
      CAPTURE(error);
      CHECK(error.find("the disk is full") != std::string::npos);
    }
    CHECK(run.errors[1 - failing].find(fmt::format("rank {}", failing)) != std::string::npos);
  }
}

TEST_CASE("learner, processes: parts that are saved by hand are gathered before, or that is an error") {
  const TemporaryFolder folder;
  ProcessesRun run({1, 3});
  run.run([&](std::size_t, Learner& learner) {
    CheckpointParts parts;
    learner.add_parts(parts);
    learner.train({.steps = 2});
    if (learner.writes()) CHECK_THROWS_WITH_AS(parts.save(), doctest::Contains("gather_parts"), Error);
    learner.gather_parts();
    if (!learner.writes()) return;
    for (const auto& [name, state] : parts.save())
      if (name == "measured") CHECK(split_texts(state.text).size() == ProcessesRun::kDevices);
  });
  check_good(run);
}
