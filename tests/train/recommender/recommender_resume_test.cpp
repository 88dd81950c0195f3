// SPDX-License-Identifier: Apache-2.0
// A recommender's training, interrupted anywhere and resumed, ends bitwise where it would have ended.
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/recommender/click_training.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

class Interrupting : public Hook {
 public:
  explicit Interrupting(std::int64_t at) : at_(at) {}
  void after_step(const StepReport& report) override {
    if (report.training && report.global_step == at_) throw std::runtime_error("interrupted");
  }

 private:
  std::int64_t at_;
};

/// Two epochs or more of three hours, interrupted in the middle of a window, at its end, before and behind a save.
void resumes_bitwise(TrainingArguments arguments, const ClickRun::Plan& plan) {
  const TemporaryFolder folder;
  arguments.save_concurrency_per_rank = 1;
  arguments.output_dir = folder.file("whole");
  ClickRun whole(arguments, plan);
  whole.trainer.train_and_evaluate();
  const auto expected = whole.contents();
  REQUIRE(whole.steps() > 6);
  for (const std::int64_t at :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{4}, std::int64_t{6}, whole.steps() - 1}) {
    CAPTURE(at);
    arguments.output_dir = folder.file("run" + std::to_string(at));
    {
      ClickRun interrupted(arguments, plan);
      interrupted.trainer.learner().trainer(plan.devices - 1).register_hook(std::make_shared<Interrupting>(at));
      CHECK_THROWS_WITH(interrupted.trainer.train_and_evaluate(), "interrupted");
    }
    ClickRun resumed(arguments, plan);
    const auto loaded = resumed.trainer.restore();
    CHECK(loaded.has_value() == (at > 2));
    resumed.trainer.train_and_evaluate();
    for (std::size_t d = 0; d < plan.devices; ++d) CHECK((resumed.contents(d) == expected));
    CHECK(resumed.steps() == whole.steps());
    const auto& evaluated = whole.trainer.learner().main().storage().find("evaluation/loss")->history;
    CHECK(resumed.trainer.learner().main().storage().find("evaluation/loss")->history.back() == evaluated.back());
  }
}

Schedule falling() { return Schedule::linear(0.02, 0.001, 20); }

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("recommender resume: within windows, between them, behind skipped ones") {
  TrainingArguments arguments{.log_steps = 2, .train_epoch = 2, .save_steps = 2};
  resumes_bitwise(arguments, {.options = {.dense_schedule = falling()}});
  resumes_bitwise(arguments, {.devices = 2, .options = {.dense_schedule = falling()}});
}

TEST_CASE("recommender resume: by windows alone, each of which a limit cuts") {
  // The first window is saved with its second step, in the middle of its data.
  resumes_bitwise({.train_steps = 2, .train_epoch = 2, .save_steps = std::nullopt, .window_iter = 2}, {.batch = 2});
}

TEST_CASE("recommender resume: devices with different windows") {
  resumes_bitwise({.train_epoch = 2, .save_steps = 2}, {.devices = 2, .data = uneven_hours});
}

TEST_CASE("recommender resume: with micro-batches and a loss scale") {
  resumes_bitwise(
      {.gradient_accumulation_steps = 2, .train_epoch = 2, .save_steps = 1, .mixed_precision = MixedPrecision::fp16},
      {.devices = 2});
}

TEST_CASE("recommender resume: double buffering, and data without windows") {
  TrainingArguments arguments{.train_epoch = 3, .save_steps = 2};
  resumes_bitwise(arguments, {.devices = 2, .options = {.learner = {.sync = {.overlap = Overlap::double_buffered}}}});
  resumes_bitwise(arguments, {.windowed = false});
}

TEST_CASE("recommender resume: a checkpoint of two devices goes on on one and on three") {
  const TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder.file("whole"), .train_epoch = 2};
  ClickRun whole(arguments, {.devices = 2, .batch = 6});
  whole.trainer.train();
  arguments.output_dir = folder.file("run");
  arguments.save_steps = 1;
  {
    ClickRun interrupted(arguments, {.devices = 2, .batch = 6});
    interrupted.trainer.learner().main().register_hook(std::make_shared<Interrupting>(4));
    CHECK_THROWS_WITH(interrupted.trainer.train(), "interrupted");
  }
  const auto expected = whole.contents();
  for (const std::size_t devices : {1, 2, 3}) {
    CAPTURE(devices);
    arguments.output_dir = folder.file("on" + std::to_string(devices));
    std::filesystem::copy(folder.file("run"), arguments.output_dir, std::filesystem::copy_options::recursive);
    ClickRun resumed(arguments, {.devices = devices, .batch = 6});
    resumed.trainer.train();
    CHECK(resumed.steps() == whole.steps());
    const auto contents = resumed.contents();
    REQUIRE(contents.size() == expected.size());
    for (std::size_t i = 0; i < contents.size(); ++i) CHECK(contents[i] == doctest::Approx(expected[i]).epsilon(1e-3));
    for (std::size_t d = 1; d < devices; ++d) CHECK((resumed.contents(d) == contents));
  }
}

TEST_CASE("recommender resume: a damaged checkpoint is passed over, one of another model is refused") {
  const TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder.file("run"), .save_steps = 2};
  std::vector<double> expected;
  std::vector<std::string> paths;
  {
    ClickRun first(arguments);
    first.trainer.train();
    expected = first.contents();
    paths = first.trainer.checkpoints().paths();
  }
  REQUIRE(paths.size() > 2);
  for (const auto& entry : std::filesystem::directory_iterator(paths.back()))
    if (entry.path().extension() == ".safetensors") {
      const std::string bytes = read_file(entry.path().string());
      write_file(entry.path().string(), bytes.substr(0, bytes.size() / 2));
      break;
    }
  ClickRun again(arguments);
  const auto loaded = again.trainer.restore();
  REQUIRE(loaded);
  CHECK(loaded->path == paths[paths.size() - 2]);
  again.trainer.train();
  CHECK((again.contents() == expected));

  struct Wider : Ranker {
    Wider() { items = HashEmbedding(3, {.table = {.device = test_device()}}); }
  };
  Wider wider;
  const auto before = wider.contents();
  CheckpointParts parts;
  parts.add("model", wider);
  CHECK_THROWS_WITH_AS((void)again.trainer.checkpoints().load_newest(parts),
                       doctest::Contains("table \"items\": [hash_table] \"rows\" is [4, 2], it must be [4, 3]"),
                       DataError);
  CHECK((wider.contents() == before));
}

TEST_CASE("RecommenderTrainer: a second start on a folder is refused at once, and the first's log is as it was") {
  const TemporaryFolder folder;
  const TrainingArguments arguments{.output_dir = folder.file("run"),
                                    .log_steps = 1,
                                    .save_steps = std::nullopt,
                                    .save_every_n_windows = std::nullopt,
                                    .save_end = false};
  ClickRun first(arguments);
  first.trainer.train();
  const std::string log = read_file(folder.file("run/metrics.jsonl"));
  CHECK_FALSE(log.empty());
  ClickRun second(arguments);
  CHECK_THROWS_WITH_AS(second.trainer.train(), doctest::Contains("written to by another"), DataError);
  CHECK_THROWS_AS((void)second.trainer.evaluate(), DataError);
  CHECK(second.steps() == 0);
  CHECK((read_file(folder.file("run/metrics.jsonl")) == log));
}

TEST_SUITE_END();
