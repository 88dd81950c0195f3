// SPDX-License-Identifier: Apache-2.0
// Training that is interrupted and resumed from its checkpoints ends bitwise where it would have ended.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/hooks/early_stopping.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/learner.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Learner = DataParallelLearner<Sequential, Batch>;

Sequential network() {
  Generator random(3);
  Sequential model;
  model.append("hidden", Linear(3, 8, random));
  model.append("dropout", Dropout(0.25, random));
  model.append("out", Linear(8, 2, random));
  model.detach_members_to(test_device());
  return model;
}

/// 37 examples, so that the last step of an epoch is uneven.
Examples examples() {
  Generator random(11);
  return {random.normal({37, 3}, DType::f32, cpu()), random.normal({37, 2}, DType::f32, cpu())};
}

struct Run {
  explicit Run(std::size_t devices, std::int64_t accumulation = 1, EarlyStoppingOptions patience = {.patience = 100},
               Overlap overlap = Overlap::immediate)
      : stopping(std::make_shared<EarlyStopping>(std::move(patience))),
        batches(examples(), {.batch = 4, .devices = test_devices(devices), .seed = 5}),
        learner(network(),
                {.optimizer = [](Sequential& m) { return std::make_unique<AdamW>(m.parameters(), 0.01); },
                 .data = [this](std::size_t d) { return batches.stream(d); },
                 .losses = [](Sequential& m, const Batch& b) -> Losses {
                   return {{"loss", mse_loss(m.forward(b.inputs), b.targets)}};
                 },
                 .evaluation_data =
                     [](std::size_t) {
                       return BatchStream(examples(), {.batch = 4, .devices = test_devices(1), .seed = 5}).stream();
                     }},
                {.devices = test_devices(devices),
                 .sync = {.overlap = overlap},
                 .step = {.accumulation = accumulation, .metrics_every = 3}}) {
    for (std::size_t d = 0; d < devices; ++d) {
      learner.trainer(d).set_log([](std::string_view) {});
      learner.trainer(d).register_hook(
          std::make_shared<LearningRateSchedule>(learner.optimizer(d), Schedule::cosine(0.01, 40)));
    }
    learner.main().register_hook(stopping);
    learner.add_parts(parts);
  }

  /// Lines of figures every four steps, but for those that tell times.
  void write_into(const std::string& log, std::FILE* console) {
    std::vector<std::unique_ptr<EventWriter>> writers;
    writers.push_back(std::make_unique<JsonLinesWriter>(log, LineFile::Mode::append));
    writers.push_back(
        std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.output = console, .hidden = {"data_time"}}));
    learner.main().register_hook(std::make_shared<PeriodicWriter>(std::move(writers), 4));
  }
  void train(std::int64_t epochs) { learner.train_and_evaluate({.epochs = epochs}, {.every_steps = 5}); }
  std::vector<float> weights(std::size_t d = 0) {
    std::vector<float> all;
    for (const Tensor& parameter : learner.replica(d).parameters())
      for (const float value : parameter.to_vector<float>()) all.push_back(value);
    return all;
  }

  std::shared_ptr<EarlyStopping> stopping;  // its state is in its trainer's
  BatchStream batches;
  Learner learner;
  CheckpointParts parts;
};

class Interrupting : public Hook {
 public:
  explicit Interrupting(std::int64_t at) : at_(at) {}
  void after_step(const StepReport& report) override {
    if (report.training && report.global_step == at_) throw std::runtime_error("interrupted");
  }

 private:
  std::int64_t at_;
};

/// Of a log; without the times, which no two runs share.
std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("data_time");
  }
  return lines;
}

std::vector<std::string> console_lines(std::FILE* console) {
  std::rewind(console);
  std::vector<std::string> lines;
  char line[1000];
  while (std::fgets(line, sizeof line, console) != nullptr) lines.emplace_back(line);
  return lines;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("resume: a learner's training ends bitwise where the uninterrupted one ends, wherever it was interrupted") {
  for (const std::int64_t accumulation : {1, 2}) {
    CAPTURE(accumulation);
    Run whole(2, accumulation);
    whole.train(4);
    const auto expected = whole.weights();
    for (const std::int64_t at : {1, 4, 5, 6, 10, 11, 17}) {
      CAPTURE(at);
      const TemporaryFolder folder;
      {
        Run interrupted(2, accumulation);
        CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 2, .every_epochs = 1});
        interrupted.learner.save_into(checkpoints, interrupted.parts);
        interrupted.learner.trainer(1).register_hook(std::make_shared<Interrupting>(at));
        CHECK_THROWS_WITH(interrupted.train(4), "interrupted");
      }
      Run resumed(2, accumulation);
      CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 2});
      const auto loaded = checkpoints.load_newest(resumed.parts);
      CHECK(loaded.has_value() == (at > 2 || (at == 2 && accumulation == 1)));
      resumed.learner.save_into(checkpoints, resumed.parts);
      resumed.train(4);
      for (std::size_t d = 0; d < 2; ++d) CHECK(resumed.weights(d) == expected);
      CHECK(resumed.learner.main().iteration() == whole.learner.main().iteration());
      CHECK(resumed.stopping->state() == whole.stopping->state());
    }
  }
}

TEST_CASE("resume: it writes the figures that the uninterrupted run writes") {
  const TemporaryFolder folder;
  const File console(std::tmpfile(), &std::fclose);
  Run whole(2);
  whole.write_into(folder.file("whole.jsonl"), console.get());
  whole.train(4);
  const auto expected = lines_of(folder.file("whole.jsonl"));
  const auto expected_console = console_lines(console.get());
  REQUIRE(expected.size() >= 20);
  for (const std::int64_t at : {3, 5, 7, 10, 11, 13, 19, 20}) {
    CAPTURE(at);
    const TemporaryFolder own;
    const File lost(std::tmpfile(), &std::fclose);
    {
      Run interrupted(2);
      interrupted.write_into(own.file("log.jsonl"), lost.get());
      CheckpointFolder checkpoints(own.file("run"), {.every_steps = 2});
      interrupted.learner.save_into(checkpoints, interrupted.parts);
      interrupted.learner.trainer(1).register_hook(std::make_shared<Interrupting>(at));
      CHECK_THROWS_WITH(interrupted.train(4), "interrupted");
    }
    const File later(std::tmpfile(), &std::fclose);
    Run resumed(2);
    resumed.write_into(own.file("log.jsonl"), later.get());
    CheckpointFolder checkpoints(own.file("run"));
    REQUIRE(checkpoints.load_newest(resumed.parts));
    resumed.train(4);
    const auto lines = lines_of(own.file("log.jsonl"));
    CHECK(lines.back() == expected.back());
    if (at == 20) continue;  // after the last step: its line is written, and the evaluation then gets one of its own
    CHECK(lines == expected);
    const auto console_after = console_lines(later.get());
    REQUIRE(!console_after.empty());
    REQUIRE(console_after.size() <= expected_console.size());
    CHECK(std::equal(console_after.rbegin(), console_after.rend(), expected_console.rbegin()));
  }
}

TEST_CASE("resume: from the end of a run, or of an epoch, it goes on with the next epoch") {
  Run whole(2);
  whole.train(2);
  whole.train(4);
  const TemporaryFolder folder;
  {
    Run first(2);
    CheckpointFolder checkpoints(folder.file("run"), {.every_epochs = 1});
    first.learner.save_into(checkpoints, first.parts);
    first.train(2);
    CHECK(checkpoints.paths().size() == 2);  // the end is that of the last epoch
  }
  Run second(2);
  CheckpointFolder checkpoints(folder.file("run"));
  const auto loaded = checkpoints.load_newest(second.parts);
  REQUIRE(loaded);
  CHECK(loaded->progress.window == second.learner.main().window());
  CHECK(second.learner.main().epoch() == 2);
  second.train(4);
  CHECK(second.weights() == whole.weights());
  CHECK(second.learner.main().iteration() == whole.learner.main().iteration());
}

TEST_CASE("resume: a checkpoint of another model is refused, and nothing is changed") {
  const TemporaryFolder folder;
  Run run(1);
  CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 2});
  run.learner.save_into(checkpoints, run.parts);
  run.train(1);
  Generator random(1);
  Linear other(5, 2, random);
  CheckpointParts parts;
  parts.add("model", other);
  const auto before = other.parameters()[0].to_vector<float>();
  CHECK_THROWS_AS((void)checkpoints.load_newest(parts), DataError);
  CHECK(other.parameters()[0].to_vector<float>() == before);
}

TEST_CASE("resume: after a refused checkpoint all devices' storages and figures are what they were") {
  const TemporaryFolder folder;
  Run other(2);
  CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 2});
  other.learner.save_into(checkpoints, other.parts);
  other.train(1);
  Run run(2);
  run.learner.train({.steps = 4});  // a figure is on its way
  const auto held = [&] {
    std::vector<std::string> all;
    for (std::size_t d = 0; d < 2; ++d) {
      auto& trainer = run.learner.trainer(d);
      all.insert(all.end(), {trainer.state(), trainer.measured(), std::to_string(trainer.storage().starts().size())});
    }
    return all;
  };
  Generator random(1);
  run.learner.trainer(1).storage().put_scalar("its own", 1);
  const auto before = held();
  run.parts.add("missing", random);
  CHECK_THROWS_WITH_AS((void)checkpoints.load_newest(run.parts), doctest::Contains("no part \"missing\""), DataError);
  CHECK(held() == before);
}

TEST_CASE("resume: a run that was stopped early is over, unless there is more patience") {
  const EarlyStoppingOptions patience{.smaller_is_better = false, .patience = 2};
  for (const std::size_t devices : {1U, 2U}) {
    CAPTURE(devices);
    const TemporaryFolder folder;
    Run first(devices, 1, patience);
    CheckpointFolder checkpoints(folder.file("run"));
    first.learner.save_into(checkpoints, first.parts);
    first.train(6);
    const std::int64_t end = first.learner.main().iteration();
    REQUIRE(first.stopping->without_improvement() == 2);
    for (int again = 0; again < 5; ++again) {
      Run resumed(devices, 1, patience);
      REQUIRE(checkpoints.load_newest(resumed.parts));
      resumed.train(6);
      CHECK(resumed.learner.main().iteration() == end);
      CHECK(resumed.learner.main().completed());
      CHECK(resumed.weights() == first.weights());
    }
    Run longer(devices, 1, {.smaller_is_better = false, .patience = 3});
    REQUIRE(checkpoints.load_newest(longer.parts));
    longer.train(6);
    CHECK(longer.learner.main().iteration() > end);
  }
}

TEST_CASE("BestCheckpointer: training that goes on from what it kept must beat that") {
  const TemporaryFolder folder;
  Run first(1);
  CheckpointFolder best(folder.file("run"), {.at_end = false, .max_to_keep = 1});
  const auto keeper = std::make_shared<BestCheckpointer>(best, first.parts);
  first.learner.main().register_hook(keeper);
  first.train(3);
  REQUIRE(keeper->best());
  Run second(1);
  REQUIRE(best.load_newest(second.parts));
  const auto again = std::make_shared<BestCheckpointer>(best, second.parts);
  second.learner.main().register_hook(again);  // after loading
  CHECK(again->best() == keeper->best());
}

TEST_CASE("BestCheckpointer: keeps the best evaluation's model") {
  const TemporaryFolder folder;
  Run run(1);
  CheckpointParts model;
  model.add("model", run.learner.model());
  CheckpointFolder best(folder.file("run"), {.at_end = false, .max_to_keep = 1});
  const auto keeper = std::make_shared<BestCheckpointer>(best, model);
  run.learner.main().register_hook(keeper);
  run.train(6);
  REQUIRE(keeper->best());
  double least = 1e9;
  std::int64_t at = 0;
  for (const auto& [iteration, value] : run.learner.main().storage().find("evaluation/loss")->history)
    if (value < least) least = value, at = iteration + 1;
  CHECK(*keeper->best() == least);
  Sequential loaded = network();
  CheckpointParts parts;
  parts.add("model", loaded);
  CHECK(best.load_newest(parts)->progress.step == at);
  CHECK(best.paths().size() == 1);
  BestCheckpointer again(best, model);
  again.load_state(keeper->state());
  CHECK(again.best() == keeper->best());
  CHECK_THROWS_WITH_AS(again.after_evaluation({{"accuracy", 1}}), doctest::Contains("no \"loss\""), Error);
  CHECK_THROWS_AS(again.load_state("best"), DataError);
}

TEST_CASE("BestCheckpointer: with accumulation a run goes on from it bitwise, since evaluations wait for the update") {
  const TemporaryFolder folder;
  Run whole(1, 2);
  CheckpointFolder best(folder.file("run"), {.at_end = false, .max_to_keep = 0});
  whole.learner.main().register_hook(std::make_shared<BestCheckpointer>(best, whole.parts));
  whole.train(2);  // evaluations are due at steps 5, 10 and so on
  Run resumed(1, 2);
  REQUIRE_FALSE(best.paths().empty());
  CHECK(best.load(best.paths().front(), resumed.parts).progress.step == 6);
  resumed.train(2);
  CHECK(resumed.weights() == whole.weights());
}

TEST_CASE("BestCheckpointer: refuses an evaluation within an accumulation") {
  const TemporaryFolder folder;
  Run run(1, 2);
  CheckpointFolder best(folder.file("run"));
  Trainer& main = run.learner.main();
  main.register_hook(std::make_shared<BestCheckpointer>(best, run.parts));
  main.register_hook(std::make_shared<CallbackHook>(
      Callbacks{.after_step = [](Trainer& t, const StepReport&) { (void)t.evaluate(1); }}));
  CHECK_THROWS_WITH_AS(run.train(1), doctest::Contains("step 1 is within an accumulation"), Error);
  CHECK(best.paths().empty());
}

TEST_CASE("BestCheckpointer: with double buffering keeps the model alone, and refuses other parts") {
  const TemporaryFolder folder;
  Run run(1, 1, {.patience = 100}, Overlap::double_buffered);
  CheckpointFolder best(folder.file("run"));
  const auto keeper = std::make_shared<BestCheckpointer>(best, run.parts);
  run.learner.main().register_hook(keeper);
  CHECK_THROWS_WITH_AS(run.train(1), doctest::Contains("give it the model alone, without optimizer, "), Error);
  CHECK(best.paths().empty());
  CHECK_FALSE(keeper->best());

  Run other(1, 1, {.patience = 100}, Overlap::double_buffered);
  CheckpointParts model;
  model.add("model", other.learner.model());
  other.learner.main().register_hook(std::make_shared<BestCheckpointer>(best, model));
  other.train(1);
  CHECK_FALSE(best.paths().empty());
}

TEST_CASE("Trainer: the last evaluation is of the last update, also of batches that a limit cut off") {
  Run run(1, 4);
  std::vector<bool> between;
  run.learner.main().register_hook(std::make_shared<CallbackHook>(
      Callbacks{.after_evaluation = [&](Trainer& t, const Metrics&) { between.push_back(t.between_updates()); }}));
  run.learner.train_and_evaluate({.steps = 6}, {.every_steps = 3});
  CHECK(between == std::vector<bool>{true, true});  // after steps 4 and 6
}

TEST_SUITE_END();
